package promclient_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/promclient"
)

// The program serves the client's metrics with its own.
func ExampleNew() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"}, client.WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reg := prometheus.NewRegistry()
	reg.MustRegister(promclient.New(c))

	families, err := reg.Gather()
	fmt.Println(len(families) > 0, err)
	// Output: true <nil>
}
