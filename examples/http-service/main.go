// Command http-service is a web service with a limit per caller address, which all its processes
// enforce together.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/http-service
//	curl -i localhost:8080
//
// With -tls-dir it connects to a secured cluster: see docs/tutorial.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/httplimit"
)

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	tlsDir := flag.String("tls-dir", "", "directory with ca.crt, client.crt and client.key, of a cluster that is secured")
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	flag.Parse()

	c, err := client.New(context.Background(), strings.Split(*nodes, ","), client.WithTLSDir(*tlsDir))
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-c.Ready():
	case <-time.After(10 * time.Second): // better without limits than not at all; the client logs why
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello from", r.URL.Path) })

	limited := httplimit.New(c, httplimit.Limit("web", "per_client"), httplimit.SkipPaths("/healthz"),
		httplimit.OnError(func(_ context.Context, err error) { log.Print("let through: ", err) }))
	log.Fatal(http.ListenAndServe(*listen, limited(mux)))
}
