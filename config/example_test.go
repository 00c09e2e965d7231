package config_test

import (
	"fmt"

	"github.com/quorate/quorate/config"
)

func ExampleParseLimits() {
	_, err := config.ParseLimits("limits.yaml", []byte(`version: 1
namespaces:
  web:
    limits:
      login: {rate: 5, brust: 5}
`))
	fmt.Println(err)
	// Output:
	// limits.yaml:5:21: namespaces.web.limits.login.rate: is "5"; write it as tokens/period, such as 10/s, 5/m or 100/10s
	//     5 |       login: {rate: 5, brust: 5}
	//       |                     ^
	// limits.yaml:5:24: namespaces.web.limits.login.brust: unknown field; did you mean burst?
	//     5 |       login: {rate: 5, brust: 5}
	//       |                        ^
}

func ExampleFormatLimits() {
	limits, err := config.ParseLimits("limits.yaml", []byte(`{version: 1, namespaces: {web: {limits: {per_client: {rate: 10/s}}}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s", config.FormatLimits(limits))
	// Output:
	// version: 1
	// namespaces:
	//   web:
	//     limits:
	//       per_client: {rate: 10/s, burst: 10, ceiling: soft}
}

func ExampleLint() {
	limits, err := config.ParseLimits("limits.yaml", []byte(`
version: 1
namespaces: {web: {limits: {search: {tiers: [{limit: 5, per: 1m}, {limit: 1000, per: 1h}]}}}}`))
	if err != nil {
		panic(err)
	}
	for _, f := range config.Lint(limits) {
		fmt.Println(f)
	}
	// Output:
	// web/search: tier 2 (1000 per 1h) is never reached, because tier 1 (5 per 1m) admits no more; remove one of them, or change it (unreachable-tier)
}
