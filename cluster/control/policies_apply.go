package control

import (
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/account"
)

// policiesResult is the result of applying a change of policy configs.
type policiesResult struct {
	changed  bool   // something was stored or deleted
	revision uint64 // of the table after the change
	err      error
}

// checkBounds returns an error if one more config would exceed a bound.
func (m *Machine) checkBounds(t *policyTable, c *policyConfig) error {
	if have := len(t.configs); have >= m.maxConfigs {
		return &account.PoliciesFullError{What: "configs", Have: int64(have), Adding: 1, Most: int64(m.maxConfigs)}
	}
	size := c.size()
	if size > maxConfigBytes {
		return &account.PoliciesFullError{What: "bytes in one config", Adding: size, Most: maxConfigBytes}
	}
	if t.Bytes+size > m.maxPolicyBytes {
		return &account.PoliciesFullError{What: "bytes", Have: t.Bytes, Adding: size, Most: m.maxPolicyBytes}
	}
	return nil
}

// loadPolicies ignores the content if the config's ID already exists. If the existing config was
// loaded at the same nanosecond by the same caller, the entry is a repeated proposal: it reports
// the config as changed, since the first one created it.
func (m *Machine) loadPolicies(load *raftlogv1.LoadPolicies) policiesResult {
	t := m.Policies.Load()
	res := policiesResult{revision: t.Revision}
	s := load.GetConfig()
	if have := t.Find(decodeConfigID(s.GetId())); have != nil {
		res.changed = int64(have.at) == s.GetAtUnixNanos() && have.by == s.GetBy()
		return res
	}
	c, err := decodeConfig(s)
	if err == nil {
		err = m.checkBounds(t, c)
	}
	if err != nil {
		res.err = err
		return res
	}
	return m.storePolicies(t.with(c))
}

func (m *Machine) purgePolicies(purge *raftlogv1.PurgePolicies) policiesResult {
	t := m.Policies.Load()
	i, ok := t.search(decodeConfigID(purge.GetId()))
	if !ok {
		return policiesResult{revision: t.Revision}
	}
	return m.storePolicies(t.without(i))
}

func (m *Machine) storePolicies(t *policyTable) policiesResult {
	m.Policies.Store(t)
	m.Reloaded()
	return policiesResult{changed: true, revision: t.Revision}
}
