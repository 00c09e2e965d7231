package rest

import (
	"strconv"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

const checkExample = `{"namespace":"web","limit":"per_client","key":"203.0.113.7"}`

// decodeCheck reads an AllowRequest and nothing after it.
func decodeCheck(b []byte, c *api.Check) error {
	r := apijson.NewReader(b)
	if f := r.Start(checkExample); f != nil {
		return f
	}
	if f := readCheck(r, "", c); f != nil {
		return f
	}
	return r.End()
}

// decodeBatch reads an AllowBatchRequest and nothing after it.
func decodeBatch(b []byte) ([]api.Check, error) {
	r := apijson.NewReader(b)
	if f := r.Start(`{"checks":[` + checkExample + `]}`); f != nil {
		return nil, f
	}
	var checks []api.Check
	f := r.Object("", []string{"checks"}, func(int) (f error) {
		checks, f = readChecks(r)
		return f
	})
	if f == nil {
		f = r.End()
	}
	return checks, f
}

func readChecks(r *apijson.Reader) (checks []api.Check, err error) {
	err = r.Array("checks", apiproto.MaxBatch, func(path string) error {
		checks = append(checks, api.Check{})
		return readCheck(r, path, &checks[len(checks)-1])
	})
	return checks, err
}

var checkFields = []string{"namespace", "limit", "key", "cost", "max_wait", "method", "path"}

func readCheck(r *apijson.Reader, path string, c *api.Check) error {
	return r.Object(path, checkFields, func(field int) (f error) {
		name := apierr.Join(path, checkFields[field])
		switch field {
		case 0:
			c.Key.Namespace, f = r.Str(name)
		case 1:
			c.Key.LimitName.Limit, f = r.Str(name)
		case 2:
			c.Key.Key, f = r.Str(name)
		case 3:
			c.Cost, c.Costs, f = readCost(r, name)
		case 4:
			c.Wait, c.Waits, f = r.Seconds(name, quota.MaxPause)
		case 5:
			c.Method, f = r.Str(name)
		case 6:
			c.Path, f = r.Str(name)
		}
		return f
	})
}

// cost reads a whole number, or null for absent. Its range is checked later.
func readCost(r *apijson.Reader, field string) (n int64, given bool, f error) {
	if r.Null() {
		return 0, false, nil
	}
	n, f = r.Whole(field, 64, "from 0 to "+strconv.FormatInt(quota.MaxTokens, 10))
	return n, f == nil, f
}
