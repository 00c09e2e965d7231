package suggest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func limits(t *testing.T, names ...string) *quota.Limits {
	t.Helper()
	var all []quota.Limit
	for _, n := range names {
		ns, l, _ := strings.Cut(n, "/")
		all = append(all, quota.Limit{LimitName: quota.LimitName{Namespace: ns, Limit: l}, Rate: quota.Rate{Tokens: 1, Per: 1e9}, Burst: 1})
	}
	out, err := quota.NewLimits(1, all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExplain(t *testing.T) {
	shop := limits(t, "shop/per_user", "web/per_client")
	for _, tc := range []struct {
		limits *quota.Limits
		asked  quota.LimitName
		want   string
	}{
		{&quota.Limits{}, quota.LimitName{Namespace: "shop", Limit: "x"}, `unknown limit shop/x: there are no limits; apply a limit file with "quorate limits apply FILE"`},
		{shop, quota.LimitName{Namespace: "shop", Limit: "per_usr"}, `unknown limit shop/per_usr; did you mean "shop/per_user"? namespace "shop" has: per_user`},
		{shop, quota.LimitName{Namespace: "shop", Limit: "zzz"}, `unknown limit shop/zzz; namespace "shop" has: per_user`},
		{shop, quota.LimitName{Namespace: "shp", Limit: "per_user"}, `unknown limit shp/per_user: unknown namespace "shp"; did you mean "shop"? known: shop, web`},
	} {
		if got := Explain(tc.asked, tc.limits); got != tc.want {
			t.Errorf("%v: %s", tc.asked, got)
		}
	}
}

// TestWithin checks that suggestions for a caller that may see one namespace come from that namespace.
func TestWithin(t *testing.T) {
	shop := limits(t, "shop/per_user", "web/per_client")
	for _, tc := range []struct {
		asked quota.LimitName
		want  string
	}{
		{quota.LimitName{Namespace: "shop", Limit: "per_usr"}, `unknown limit shop/per_usr; did you mean "shop/per_user"? namespace "shop" has: per_user`},
		{quota.LimitName{Namespace: "shp", Limit: "per_user"}, `unknown limit shp/per_user: namespace "shp" has no limits; check its spelling, or apply some with "quorate limits apply FILE"`},
	} {
		if got := Within(tc.asked, shop); got != tc.want {
			t.Errorf("%v: %s", tc.asked, got)
		}
	}
}

// TestBounds: the words do not grow with the number of limits.
func TestBounds(t *testing.T) {
	var names []string
	for i := range 3 * maxCompared {
		names = append(names, fmt.Sprintf("shop/l%05d", i))
	}
	got := Explain(quota.LimitName{Namespace: "shop", Limit: "x"}, limits(t, names...))
	if !strings.HasSuffix(got, "l00009, ... (1000+ in all)") || len(got) > 300 {
		t.Errorf("%s", got)
	}
}
