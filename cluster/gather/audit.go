package gather

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
)

// auditTime bounds how long a node reads its audit log for one answer.
const auditTime = 5 * time.Second

// maxAuditBytes bounds the entries in the answer of one node, plus one entry.
const maxAuditBytes = 1 << 20

// missed is the place of a node that did not answer an earlier page: later pages leave it out too,
// so that entries stay in order.
const missed = "-"

var errMissed = errors.New("did not answer an earlier page")

// ListAuditEntries merges the audit logs of all nodes, newest first. req.PageSize must be positive.
// It leaves out nodes that do not answer within auditTime; the answer names them.
func (s *Service) ListAuditEntries(ctx context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error) {
	places, err := s.places(req)
	if err != nil {
		return nil, err
	}
	ask := proto.CloneOf(req)
	ask.PageToken = ""
	filter, err := proto.Marshal(ask)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.ListAuditEntriesResponse{}
	logs := map[string]*auditLog{}
	miss := func(node, reason string) {
		places[node] = missed
		out.MissingNodes = append(out.MissingNodes, &quoratev1.MissingNode{Node: node, Reason: reason})
	}
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for node, place := range maps.Clone(places) {
		wg.Go(func() {
			var res *peerv1.CallAuditResult
			err := errMissed
			if place != missed {
				res, err = s.askAudit(ctx, quota.NodeID(node), &peerv1.CallAudit{Filter: filter, After: place})
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				miss(node, err.Error())
				return
			}
			logs[node] = newAuditLog(res, place)
		})
	}
	wg.Wait()
	slices.SortFunc(out.MissingNodes, func(a, b *quoratev1.MissingNode) int { return strings.Compare(a.Node, b.Node) })
	out.Entries = merge(logs, int(req.PageSize))
	for node, l := range logs {
		if l.done {
			delete(places, node)
		} else {
			places[node] = l.place
		}
	}
	out.NextPageToken = tokenOf(places)
	return out, nil
}

func (s *Service) askAudit(ctx context.Context, node quota.NodeID, c *peerv1.CallAudit) (*peerv1.CallAuditResult, error) {
	if node == s.cfg.Self {
		return s.answerAudit(ctx, node, c)
	}
	res, err := s.node.Call(ctx, node, &peerv1.Call{Body: &peerv1.Call_Audit{Audit: c}})
	return res.GetAuditResult(), err
}

// auditLog is the answer of one node, as far as it is not merged.
type auditLog struct {
	entries []*quoratev1.AuditEntry
	places  []string // behind each entry
	place   string   // behind the entries that are merged
	next    string   // behind all entries; empty at the end
	done    bool     // all entries are merged, and the log has no older ones
}

func newAuditLog(res *peerv1.CallAuditResult, place string) *auditLog {
	l := &auditLog{place: place, next: res.GetNext()}
	for i, data := range res.GetEntries() {
		e := &quoratev1.AuditEntry{}
		if i < len(res.GetPlaces()) && proto.Unmarshal(data, e) == nil {
			l.entries, l.places = append(l.entries, e), append(l.places, res.Places[i])
		}
	}
	l.settle()
	return l
}

// settle moves to the end of the answer if all its entries are merged.
func (l *auditLog) settle() {
	if len(l.entries) == 0 {
		l.place, l.done = l.next, l.next == ""
	}
}

// merge takes the newest entries of all logs, up to most. It stops where a log has older entries that
// are not in its answer.
func merge(logs map[string]*auditLog, most int) (out []*quoratev1.AuditEntry) {
	for len(out) < most {
		var best *auditLog
		for _, node := range slices.Sorted(maps.Keys(logs)) {
			l := logs[node]
			if len(l.entries) == 0 {
				if !l.done {
					return out
				}
				continue
			}
			if best == nil || l.entries[0].Time.AsTime().After(best.entries[0].Time.AsTime()) {
				best = l
			}
		}
		if best == nil {
			return out
		}
		out = append(out, best.entries[0])
		best.place = best.places[0]
		best.entries, best.places = best.entries[1:], best.places[1:]
		best.settle()
	}
	return out
}

// places returns where to continue in the log of each node: at the newest entries of all nodes, or
// where a page token says.
func (s *Service) places(req *quoratev1.ListAuditEntriesRequest) (map[string]string, error) {
	out := map[string]string{}
	if req.PageToken == "" {
		for _, id := range s.node.Members() {
			if req.Node == "" || req.Node == string(id) {
				out[string(id)] = ""
			}
		}
		return out, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(req.PageToken)
	if err != nil || json.Unmarshal(data, &out) != nil {
		return nil, status.Error(codes.InvalidArgument, "page_token: must be the next_page_token of an earlier answer; omit it to begin again")
	}
	members := s.node.Members()
	maps.DeleteFunc(out, func(node, _ string) bool { return !slices.Contains(members, quota.NodeID(node)) })
	return out, nil
}

// tokenOf returns the page token for places; empty if no log has older entries.
func tokenOf(places map[string]string) string {
	more := false
	for _, p := range places {
		more = more || p != missed
	}
	if !more {
		return ""
	}
	data, err := json.Marshal(places)
	if err != nil {
		return "" // strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// answerAudit reads this node's audit log.
func (s *Service) answerAudit(_ context.Context, _ quota.NodeID, c *peerv1.CallAudit) (*peerv1.CallAuditResult, error) {
	req := &quoratev1.ListAuditEntriesRequest{}
	if err := proto.Unmarshal(c.GetFilter(), req); err != nil {
		return nil, err
	}
	if s.cfg.AuditPath == "" {
		return nil, errors.New("the node keeps no audit log")
	}
	from, err := audit.ParseCursor(c.GetAfter())
	if err != nil {
		return nil, err
	}
	q := audit.Query{From: from, Most: int(req.PageSize), Match: matcher(req)}
	if req.Since != nil {
		q.Since = req.Since.AsTime()
	}
	found, next, err := audit.Find(s.cfg.AuditPath, q)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the path is of no use to callers
		}
		return nil, errors.Join(errors.New("the audit log cannot be read"), err)
	}
	out := &peerv1.CallAuditResult{}
	size := 0
	for i := range found {
		if size >= maxAuditBytes {
			next = &found[i-1].After
			break
		}
		data, err := proto.Marshal(entryProto(&found[i].Entry))
		if err != nil {
			continue // a text that is not UTF-8, which no log has
		}
		size += len(data)
		out.Entries, out.Places = append(out.Entries, data), append(out.Places, found[i].After.String())
	}
	if next != nil {
		out.Next = next.String()
	}
	return out, nil
}

// matcher returns the filter of a request.
func matcher(req *quoratev1.ListAuditEntriesRequest) func(*audit.Entry) bool {
	lower := strings.ToLower
	has := func(in, what string) bool { return strings.Contains(lower(in), what) }
	identity, text := lower(req.Identity), lower(req.Text)
	methods := make([]string, len(req.Methods))
	for i, m := range req.Methods {
		methods[i] = lower(m)
	}
	return func(e *audit.Entry) bool {
		return has(e.Identity, identity) && (req.Result == "" || string(e.Result) == req.Result) &&
			(len(methods) == 0 || slices.ContainsFunc(methods, func(m string) bool { return has(e.Method, m) })) &&
			(text == "" || has(e.What, text) || has(e.Answer, text) || has(e.Detail, text) || has(e.RequestID, text) || has(e.Address, text))
	}
}

func entryProto(e *audit.Entry) *quoratev1.AuditEntry {
	return &quoratev1.AuditEntry{
		Time: timestamppb.New(e.Time), Node: e.Node, RequestId: e.RequestID, Identity: e.Identity, Credential: e.Credential, Serial: e.Serial,
		Address: e.Address, Method: e.Method, What: e.What, Result: cmp.Or(string(e.Result), string(audit.OK)), Code: e.Code, Detail: e.Detail, Answer: e.Answer, Unwritten: e.Unwritten,
	}
}
