// Command grpc-service is a gRPC server with a limit per caller, identified by its metadata or else
// by its address. It serves grpc.health.v1, which every gRPC library knows; your own services go
// beside it. With -call it is a client that makes calls one after the other and waits for its turn.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/grpc-service
//	go run ./examples/grpc-service -call 30
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/grpclimit"
)

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	listen := flag.String("listen", "127.0.0.1:8081", "where to serve, or with -call whom to call")
	calls := flag.Int("call", 0, "how many calls to make")
	flag.Parse()

	c, err := client.New(context.Background(), strings.Split(*nodes, ","))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the program ends
	if *calls > 0 {
		err = call(c, *listen, *calls)
	} else {
		err = serve(c, *listen)
	}
	if err != nil {
		log.Print(err)
	}
}

func serve(c *client.Client, listen string) error {
	caller := extract.First(extract.Metadata("x-caller"), extract.RemoteIP(extract.Proxies{}))
	s := grpc.NewServer(grpclimit.Server(c, grpclimit.Limit("shop", "per_caller"), grpclimit.Key(caller),
		grpclimit.OnError(func(_ context.Context, err error) { log.Print("let through: ", err) }))...)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	select {
	case <-c.Ready():
	case <-time.After(10 * time.Second): // better without limits than not at all
	}
	lis, err := net.Listen("tcp", listen) //nolint:noctx // a program's own port
	if err != nil {
		return err
	}
	return s.Serve(lis)
}

func call(c *client.Client, addr string, n int) error {
	<-c.Ready() // otherwise the first calls would go out without a limit
	cc, err := grpc.NewClient(addr, append(
		grpclimit.Client(c, grpclimit.Limit("out", "to_shop"), grpclimit.Key(extract.Constant("example")), grpclimit.Wait(time.Minute)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	defer cc.Close() //nolint:errcheck // the program ends
	began, codes := time.Now(), map[string]int{}
	for range n {
		_, err := grpc_health_v1.NewHealthClient(cc).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		codes[status.Code(err).String()]++
	}
	fmt.Printf("%d calls in %.1f s: %v\n", n, time.Since(began).Seconds(), codes)
	return nil
}
