package account

import (
	"errors"
	"fmt"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// batchVersion is the format version that EncodeBatch writes.
const batchVersion = 1

// EncodeBatch encodes commands as one entry of a range's log (quorate.raftlog.v1.AccountBatch). An
// error names the command that it cannot encode.
func EncodeBatch(at quota.Time, commands []Command) ([]byte, error) {
	e := encoder{places: map[policyContent]uint32{}}
	out := &raftlogv1.AccountBatch{Version: batchVersion, AtUnixNanos: int64(at)}
	for i := range commands {
		c := e.command(&commands[i])
		if c == nil {
			return nil, fmt.Errorf("commands[%d]: has no change; exactly one field is set", i)
		}
		out.Commands = append(out.Commands, c)
	}
	out.Policies = e.policies
	data, err := appendMessage(nil, out)
	if err != nil {
		return nil, fmt.Errorf("encode a batch of %d commands: %w", len(commands), err)
	}
	return data, nil
}

// DecodeBatch decodes the output of EncodeBatch, of this version or an earlier one. After an error
// the caller must apply nothing of the batch.
func DecodeBatch(data []byte) (at quota.Time, commands []Command, err error) {
	var in raftlogv1.AccountBatch
	if err := unmarshal(data, &in); err != nil {
		return 0, nil, fmt.Errorf("batch of account commands: %w", err)
	}
	if in.GetVersion() != batchVersion {
		return 0, nil, fmt.Errorf("batch of account commands: version %d; this node understands %d", in.GetVersion(), batchVersion)
	}
	d := decoder{refs: make([]PolicyRef, len(in.GetPolicies())), rules: make([]*Policy, len(in.GetPolicies()))}
	for i, p := range in.GetPolicies() {
		d.refs[i], d.rules[i] = decodePolicy(p)
	}
	commands = make([]Command, len(in.GetCommands()))
	for i, c := range in.GetCommands() {
		if commands[i], err = d.command(c); err != nil {
			return 0, nil, fmt.Errorf("batch of account commands: commands[%d].%w", i, err)
		}
	}
	return quota.Time(in.GetAtUnixNanos()), commands, nil
}

// policyContent is the key by which a batch stores a policy once.
type policyContent struct {
	policy
	loaded bool
}

// encoder collects the policies that a batch refers to.
type encoder struct {
	policies []*raftlogv1.StoredPolicy
	places   map[policyContent]uint32
}

func (e *encoder) command(c *Command) *raftlogv1.AccountCommand {
	switch {
	case c.Apply != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Apply{Apply: e.request(c.Apply)}}
	case c.Begin != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Begin{Begin: &raftlogv1.StoredBegin{
			Tx: c.Begin.Tx[:], Home: uint32(c.Begin.Home), Others: encodeRanges(c.Begin.Others), Part: e.request(&c.Begin.Part),
			More: e.requests(c.Begin.More),
		}}}
	case c.Prepare != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Prepare{Prepare: &raftlogv1.StoredPrepare{
			Tx: c.Prepare.Tx.ID[:], Home: uint32(c.Prepare.Tx.Home), Part: e.request(&c.Prepare.Part), More: e.requests(c.Prepare.More),
		}}}
	case c.Decide != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Decide{Decide: &raftlogv1.StoredDecide{
			Tx: c.Decide.Tx[:], Commit: c.Decide.Commit, Results: encodeResults(c.Decide.Results), More: encodeAnswers(c.Decide.More),
		}}}
	case c.Finish != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Finish{Finish: &raftlogv1.StoredFinish{
			Tx: c.Finish.Tx[:], Commit: c.Finish.Commit,
		}}}
	case c.Forget != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Forget{Forget: &raftlogv1.StoredForget{Tx: c.Forget[:]}}}
	case c.Collect != nil:
		return &raftlogv1.AccountCommand{Change: &raftlogv1.AccountCommand_Collect{Collect: &raftlogv1.StoredCollect{Max: int64(c.Collect.Max)}}}
	}
	return nil
}

func (e *encoder) requests(list []Request) []*raftlogv1.StoredRequest {
	out := make([]*raftlogv1.StoredRequest, len(list))
	for i := range list {
		out[i] = e.request(&list[i])
	}
	return out
}

func (e *encoder) request(r *Request) *raftlogv1.StoredRequest {
	out := &raftlogv1.StoredRequest{
		By: r.By, Id: r.ID, Hash: r.Hash[:], TtlNanos: int64(r.TTL), Indexes: r.Indexes,
		Ops: make([]*raftlogv1.StoredOp, len(r.Ops)),
	}
	for i := range r.Ops {
		o := &r.Ops[i]
		id := &o.Account
		out.Ops[i] = &raftlogv1.StoredOp{
			Account: &raftlogv1.StoredAccountID{
				App: id.App, Realm: id.Realm, Identity: id.Identity, Namespace: id.Namespace, Name: id.Name, Resource: id.Resource,
			},
			Policy: e.place(o), RelativeTo: uint32(o.RelativeTo), Delta: o.Delta, Options: uint32(o.Options),
		}
	}
	return out
}

// place returns the 1-based index in the batch of an operation's policy.
func (e *encoder) place(o *Op) uint32 {
	if o.Policy == nil {
		return 0
	}
	c := policyContent{policy: policy{Ref: *o.Policy}, loaded: o.Rule != nil}
	if c.loaded {
		c.Rule = *o.Rule
	}
	if n, ok := e.places[c]; ok {
		return n
	}
	stored := encodePolicy(&c.policy)
	if !c.loaded {
		stored.Rule = nil
	}
	e.policies = append(e.policies, stored)
	e.places[c] = uint32(len(e.policies))
	return e.places[c]
}

func encodePolicy(p *policy) *raftlogv1.StoredPolicy {
	c, k, r := &p.Ref.Config, &p.Ref.Key, &p.Rule
	return &raftlogv1.StoredPolicy{
		App: c.App, Realm: c.Realm, Version: c.Version,
		Namespace: k.Namespace, Name: k.Name, Resource: k.Resource,
		Rule: &raftlogv1.StoredRule{
			Default: r.Default, Limit: r.Limit,
			RefillUnits: r.Refill.Units, RefillInterval: r.Refill.Interval, RefillOffset: r.Refill.Offset,
			Options: int32(r.Options), LifetimeNanos: int64(r.Lifetime),
		},
	}
}

// decodePolicy returns a policy and its rule; the rule is nil if the policy is not loaded.
func decodePolicy(p *raftlogv1.StoredPolicy) (PolicyRef, *Policy) {
	ref := PolicyRef{
		Config: ConfigID{App: p.GetApp(), Realm: p.GetRealm(), Version: p.GetVersion()},
		Key:    PolicyKey{Namespace: p.GetNamespace(), Name: p.GetName(), Resource: p.GetResource()},
	}
	r := p.GetRule()
	if r == nil {
		return ref, nil
	}
	return ref, &Policy{
		Default: r.GetDefault(), Limit: r.GetLimit(),
		Refill:  Refill{Units: r.GetRefillUnits(), Interval: r.GetRefillInterval(), Offset: r.GetRefillOffset()},
		Options: PolicyOptions(r.GetOptions()), Lifetime: time.Duration(r.GetLifetimeNanos()),
	}
}

func encodeRanges(list []quota.RangeID) []uint32 {
	out := make([]uint32, len(list))
	for i, r := range list {
		out[i] = uint32(r)
	}
	return out
}

func decodeRanges(list []uint32) []quota.RangeID {
	if len(list) == 0 {
		return nil
	}
	out := make([]quota.RangeID, len(list))
	for i, r := range list {
		out[i] = quota.RangeID(r)
	}
	return out
}

func encodeResults(list []Result) []*raftlogv1.StoredOpResult {
	out := make([]*raftlogv1.StoredOpResult, len(list))
	for i := range list {
		r := &list[i]
		out[i] = &raftlogv1.StoredOpResult{
			NewBalance: r.New, Previous: r.Previous, Adjusted: r.Adjusted,
			Created: r.Created, Status: uint32(r.Status), Message: r.Message,
		}
	}
	return out
}

func decodeResults(list []*raftlogv1.StoredOpResult) ([]Result, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]Result, len(list))
	for i, r := range list {
		if r.GetStatus() > uint32(PolicyRequired) {
			return nil, fmt.Errorf("results[%d].status: %d; must be 0 to %d", i, r.GetStatus(), PolicyRequired)
		}
		out[i] = Result{
			New: r.GetNewBalance(), Previous: r.GetPrevious(), Adjusted: r.GetAdjusted(),
			Created: r.GetCreated(), Status: Status(r.GetStatus()), Message: r.GetMessage(),
		}
	}
	return out, nil
}

func encodeAnswers(list [][]Result) []*raftlogv1.StoredAnswer {
	out := make([]*raftlogv1.StoredAnswer, len(list))
	for i := range list {
		out[i] = &raftlogv1.StoredAnswer{Results: encodeResults(list[i])}
	}
	return out
}

func decodeAnswers(list []*raftlogv1.StoredAnswer) (out [][]Result, err error) {
	for i, a := range list {
		results, err := decodeResults(a.GetResults())
		if err != nil {
			return nil, fmt.Errorf("more[%d].%w", i, err)
		}
		out = append(out, results)
	}
	return out, nil
}

// decoder holds the policies of a batch.
type decoder struct {
	refs  []PolicyRef
	rules []*Policy
}

var errNoChange = errors.New("change: unknown to this node")

func (d *decoder) command(c *raftlogv1.AccountCommand) (Command, error) {
	switch {
	case c.GetApply() != nil:
		r, err := d.request(c.GetApply())
		return Command{Apply: &r}, inField("apply", err)
	case c.GetBegin() != nil:
		b, err := d.begin(c.GetBegin())
		return Command{Begin: b}, inField("begin", err)
	case c.GetPrepare() != nil:
		p, err := d.prepare(c.GetPrepare())
		return Command{Prepare: p}, inField("prepare", err)
	case c.GetDecide() != nil:
		in := c.GetDecide()
		id, err := decodeTx(in.GetTx())
		results, err2 := decodeResults(in.GetResults())
		more, err3 := decodeAnswers(in.GetMore())
		return Command{Decide: &Decide{Tx: id, Commit: in.GetCommit(), Results: results, More: more}}, inField("decide", errors.Join(err, err2, err3))
	case c.GetFinish() != nil:
		id, err := decodeTx(c.GetFinish().GetTx())
		return Command{Finish: &Finish{Tx: id, Commit: c.GetFinish().GetCommit()}}, inField("finish", err)
	case c.GetForget() != nil:
		id, err := decodeTx(c.GetForget().GetTx())
		return Command{Forget: &id}, inField("forget", err)
	case c.GetCollect() != nil:
		return Command{Collect: &Collect{Max: int(c.GetCollect().GetMax())}}, nil
	}
	return Command{}, errNoChange
}

// inField prefixes an error with the name of the field.
func inField(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", name, err)
}

func (d *decoder) begin(in *raftlogv1.StoredBegin) (*Begin, error) {
	id, err := decodeTx(in.GetTx())
	part, err2 := d.request(in.GetPart())
	more, err3 := d.requests(in.GetMore())
	return &Begin{
		Tx: id, Home: quota.RangeID(in.GetHome()), Others: decodeRanges(in.GetOthers()), Part: part, More: more,
	}, errors.Join(err, inField("part", err2), err3)
}

func (d *decoder) prepare(in *raftlogv1.StoredPrepare) (*Prepare, error) {
	id, err := decodeTx(in.GetTx())
	part, err2 := d.request(in.GetPart())
	more, err3 := d.requests(in.GetMore())
	return &Prepare{Tx: Tx{ID: id, Home: quota.RangeID(in.GetHome())}, Part: part, More: more}, errors.Join(err, inField("part", err2), err3)
}

func decodeTx(b []byte) (TxID, error) {
	if len(b) != len(TxID{}) {
		return TxID{}, fmt.Errorf("tx: %d bytes; %d", len(b), len(TxID{}))
	}
	return TxID(b), nil
}

func decodeHash(b []byte) (Hash, error) {
	if len(b) != len(Hash{}) {
		return Hash{}, fmt.Errorf("hash: %d bytes; %d", len(b), len(Hash{}))
	}
	return Hash(b), nil
}

func (d *decoder) requests(list []*raftlogv1.StoredRequest) (out []Request, err error) {
	for i, in := range list {
		r, err := d.request(in)
		if err != nil {
			return nil, fmt.Errorf("more[%d].%w", i, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func (d *decoder) request(in *raftlogv1.StoredRequest) (Request, error) {
	hash, err := decodeHash(in.GetHash())
	if err != nil {
		return Request{}, err
	}
	r := Request{
		By: in.GetBy(), ID: in.GetId(), Hash: hash, TTL: time.Duration(in.GetTtlNanos()),
		Ops: make([]Op, len(in.GetOps())), Indexes: in.GetIndexes(),
	}
	for i, o := range in.GetOps() {
		if r.Ops[i], err = d.op(o); err != nil {
			return Request{}, fmt.Errorf("ops[%d].%w", i, err)
		}
	}
	return r, nil
}

func (d *decoder) op(in *raftlogv1.StoredOp) (Op, error) {
	a := in.GetAccount()
	o := Op{
		Account: ID{
			App: a.GetApp(), Realm: a.GetRealm(), Identity: a.GetIdentity(),
			Namespace: a.GetNamespace(), Name: a.GetName(), Resource: a.GetResource(),
		},
		RelativeTo: RelativeTo(min(in.GetRelativeTo(), 255)), Delta: in.GetDelta(), Options: OpOptions(in.GetOptions()),
	}
	n := in.GetPolicy()
	if n > uint32(len(d.refs)) {
		return Op{}, fmt.Errorf("policy: %d; the batch has %d policies", n, len(d.refs))
	}
	if n > 0 {
		o.Policy, o.Rule = &d.refs[n-1], d.rules[n-1]
	}
	return o, nil
}
