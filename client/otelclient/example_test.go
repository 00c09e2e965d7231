package otelclient_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/otelclient"
)

// Use the meter of the program's SDK; the meter here measures nothing.
func ExampleRegister() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"}, client.WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := otelclient.Register(noop.NewMeterProvider().Meter("shop"), c)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Unregister() }()
	fmt.Println("registered")
	// Output: registered
}
