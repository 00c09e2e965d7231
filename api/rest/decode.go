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

// decodeCheck decodes an AllowRequest, and refuses trailing data.
func decodeCheck(b []byte, c *api.Check) error {
	r := apijson.NewReader(b)
	if err := r.Start(checkExample); err != nil {
		return err
	}
	if err := readCheck(r, "", c); err != nil {
		return err
	}
	return r.End()
}

// decodeBatch decodes an AllowBatchRequest, and refuses trailing data.
func decodeBatch(b []byte) ([]api.Check, error) {
	r := apijson.NewReader(b)
	if err := r.Start(`{"checks":[` + checkExample + `]}`); err != nil {
		return nil, err
	}
	var checks []api.Check
	err := r.Object("", []string{"checks"}, func(int) error {
		return r.Array("checks", apiproto.MaxBatch, func(path string) error {
			checks = append(checks, api.Check{})
			return readCheck(r, path, &checks[len(checks)-1])
		})
	})
	if err == nil {
		err = r.End()
	}
	return checks, err
}

var checkFields = []string{"namespace", "limit", "key", "cost", "max_wait", "method", "path"}

func readCheck(r *apijson.Reader, path string, c *api.Check) error {
	return r.Object(path, checkFields, func(field int) (err error) {
		name := apierr.Join(path, checkFields[field])
		switch field {
		case 0:
			c.Key.Namespace, err = r.Str(name)
		case 1:
			c.Key.LimitName.Limit, err = r.Str(name)
		case 2:
			c.Key.Key, err = r.Str(name)
		case 3:
			c.Cost, c.Costs, err = readCost(r, name)
		case 4:
			c.Wait, c.Waits, err = r.Seconds(name, quota.MaxPause)
		case 5:
			c.Method, err = r.Str(name)
		case 6:
			c.Path, err = r.Str(name)
		}
		return err
	})
}

// readCost reads an integer, or null for absent. The caller checks the range.
func readCost(r *apijson.Reader, field string) (n int64, given bool, err error) {
	if r.Null() {
		return 0, false, nil
	}
	n, err = r.Whole(field, 64, "from 0 to "+strconv.FormatInt(quota.MaxTokens, 10))
	return n, err == nil, err
}
