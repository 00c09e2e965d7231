// Package filltest fills values for tests of codecs: what is lost on the way is seen.
package filltest

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/zone"
)

// Filled returns a value whose every field, however deep, has a value of its own: no
// zeros, two elements in each slice.
func Filled[T any](t *testing.T) T {
	t.Helper()
	var out T
	next := int64(0)
	fill(t, reflect.ValueOf(&out).Elem(), &next)
	return out
}

// OverWire returns m as its receiver decodes it, in to.
func OverWire[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// fill sets every field below v to a value of its own.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString("s" + time.Duration(*next).String())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*time.Location]() {
			z, err := zone.Load("Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			v.Set(reflect.ValueOf(z))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, next)
		}
	default:
		t.Fatalf("a field of kind %v: teach the test", v.Kind())
	}
}
