package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/httplimit"
	"github.com/quorate/quorate/internal/examplenode"
)

// A service answers 429 when a caller's limit is used up. The node is a real one, started for this
// example.
func ExampleNew() {
	addr, stop, err := examplenode.Start(`
version: 1
namespaces:
  web:
    limits:
      per_client: {rate: 1/d, burst: 2, decide: leader}
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

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	service := httptest.NewServer(httplimit.New(c, httplimit.Limit("web", "per_client"))(hello))
	defer service.Close()

	for range 3 {
		res, err := http.Get(service.URL)
		if err != nil {
			log.Fatal(err)
		}
		res.Body.Close()
		fmt.Println(res.Status, res.Header.Get("Retry-After") != "")
	}
	// Output:
	// 200 OK false
	// 200 OK false
	// 429 Too Many Requests true
}
