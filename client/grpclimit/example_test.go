package grpclimit_test

import (
	"context"
	"log"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/grpclimit"
)

// One line puts a limit before a server.
func Example() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	s := grpc.NewServer(grpclimit.Server(c, grpclimit.Limit("shop", "per_caller"))...)
	defer s.Stop()
}

// Certificates identify the callers. One method has its own limit, and health checks have none.
func ExampleMethod() {
	var c client.Limiter // client.New

	s := grpc.NewServer(grpclimit.Server(c,
		grpclimit.Limit("shop", "per_caller"),
		grpclimit.Method("/shop.Orders/Export", "shop", "exports"),
		grpclimit.SkipMethods("/grpc.health.v1.Health/Check"),
		grpclimit.Key(extract.CertURI()),
		grpclimit.MissingKey(extract.Refuse),
	)...)
	defer s.Stop()
}

// A client waits up to a second for its turn, under the name of this service.
func ExampleClient() {
	var c client.Limiter // client.New

	cc, err := grpc.NewClient("shop:443", grpclimit.Client(c,
		grpclimit.Limit("out", "to_shop"),
		grpclimit.Key(extract.Constant("cart")),
		grpclimit.Wait(time.Second),
	)...)
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close()
}
