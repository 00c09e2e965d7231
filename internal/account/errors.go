package account

import "fmt"

// PoliciesFullError reports that the cluster did not store a policy config because of a bound on
// configs. Nothing changed.
type PoliciesFullError struct {
	What   string // "configs", "bytes", or "bytes in one config"
	Have   int64  // the current amount
	Adding int64  // the amount that the config would add
	Most   int64  // the bound
}

func (e *PoliciesFullError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("policies: %d %s are too many; at most %d", e.Adding, e.What, e.Most)
	}
	return fmt.Sprintf("policies: the cluster keeps %d %s, and %d more would be too many; at most %d. Purge configs that are not in use",
		e.Have, e.What, e.Adding, e.Most)
}
