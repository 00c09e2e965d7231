package extract_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/quorate/quorate/client/extract"
)

func request() extract.Request {
	r, err := http.NewRequest(http.MethodGet, "/v1/items", http.NoBody)
	if err != nil {
		log.Fatal(err)
	}
	r.RemoteAddr = "10.0.0.1:4711" // the proxy
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("X-Cost", "3")
	return extract.Request{HTTP: r}
}

// A count per tenant and method.
func ExampleJoin() {
	key := extract.Join(extract.Header("X-Tenant"), extract.Method())
	fmt.Println(key(request()))
	// Output: acme|GET <nil>
}

// One trusted proxy stands before the service: it wrote the last address in the field.
func ExampleRemoteIP() {
	key := extract.RemoteIP(extract.Proxies{Hops: 1})
	fmt.Println(key(request()))
	// Output: 203.0.113.7 <nil>
}

// The first key that exists counts.
func ExampleFirst() {
	key := extract.First(extract.Header("X-Service"), extract.RemoteIP(extract.Proxies{Hops: 1}))
	fmt.Println(key(request()))
	// Output: 203.0.113.7 <nil>
}

// The caller states the cost of a request, up to 10.
func ExampleHeaderCost() {
	cost := extract.HeaderCost("X-Cost", 10)
	fmt.Println(cost(request()))
	// Output: 3 <nil>
}
