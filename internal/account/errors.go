package account

import "fmt"

// PoliciesFullError says that a policy config was not stored because of a bound on
// what the cluster keeps. Nothing was changed.
type PoliciesFullError struct {
	What   string // "configs", "bytes", or "bytes in one config"
	Have   int64  // so much there is
	Adding int64  // so much the config would add
	Most   int64  // so much there may be
}

func (e *PoliciesFullError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("policies: %d %s are too many; at most %d", e.Adding, e.What, e.Most)
	}
	return fmt.Sprintf("policies: the cluster keeps %d %s, and %d more would be too many; at most %d. Purge configs that are not in use",
		e.Have, e.What, e.Adding, e.Most)
}
