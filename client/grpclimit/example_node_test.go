package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/grpclimit"
	"github.com/quorate/quorate/internal/examplenode"
)

// A server answers RESOURCE_EXHAUSTED when a caller's limit is used up. The node is a real one,
// started for this example.
func ExampleServer() {
	addr, stop, err := examplenode.Start(`
version: 1
namespaces:
  shop:
    limits:
      per_caller: {rate: 1/d, burst: 2, decide: leader}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	c, err := client.New(context.Background(), []string{addr}, client.WithTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	<-c.Ready()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(grpclimit.Server(c, grpclimit.Limit("shop", "per_caller"))...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go s.Serve(l) // returns after Stop
	defer s.Stop()

	cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close()
	for range 3 {
		_, err := grpc_health_v1.NewHealthClient(cc).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
