package console

import (
	"regexp"
	"strings"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestChangePlurals checks the words for one range and one replica, and for several.
func TestChangePlurals(t *testing.T) {
	one := regexp.MustCompile(`\b1 (ranges|replicas|groups)\b`)
	several := regexp.MustCompile(`\b4 (range|replica|group)\b`)
	for change, c := range changes {
		for _, n := range []int32{1, 4} {
			words := strings.Join(c.will(&quoratev1.NodeStatus{Leads: n, Replicas: n}), " ")
			if one.MatchString(words) || several.MatchString(words) {
				t.Errorf("%s: %s", change, words)
			}
		}
	}
}
