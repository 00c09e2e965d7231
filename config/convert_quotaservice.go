package config

import (
	"time"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

const (
	qsBucketExample    = "{size: 100, fill_rate: 50}"
	qsNamespaceExample = "{buckets: {name: " + qsBucketExample + "}}"
)

// qsBucket is a bucket of quotaservice, in which 0 means not set.
type qsBucket struct {
	size, fillRate, maxTokens          int64
	waitMillis, idleMillis, debtMillis int64
	maxKeys                            int64 // of a template; from its namespace
}

// quotaservice converts a ServiceConfig.
func (c *conversion) quotaservice(v Value) {
	c.note("", "in other calls than Allow of quotaservice, use the bucket's name as the limit and * as the key",
		"a bucket there has no key: it is one bucket for all callers")
	v.Fields("namespaces: {name: "+qsNamespaceExample+"}", []Field{
		{"global_default_bucket", "", func(v Value) { c.qsBucket(quota.Global, v, 0) }},
		{"namespaces", "", func(v Value) { v.named("{name: "+qsNamespaceExample+"}", c.qsNamespace) }},
		c.noted("version", "", "the version number is not converted; versions start again"),
		c.noted("user", "", "is not carried over; the author is recorded when the limits are applied"),
		c.noted("date", "", "is not carried over; the time is recorded when the limits are applied"),
	})
}

func (c *conversion) qsNamespace(name string, v Value) {
	var template, byDefault Value
	var maxKeys int64
	var maxKeysAt Value
	_, ok := v.Fields(qsNamespaceExample, []Field{
		c.qsName("name"),
		{"default_bucket", "", func(v Value) { byDefault = v }},
		{"dynamic_bucket_template", "", func(v Value) { template = v }},
		{"max_dynamic_buckets", "", func(v Value) { maxKeysAt = v; v.scalar(whole(&maxKeys, 0, 1<<31-1)) }},
		{"buckets", "", func(v Value) {
			v.named("{name: "+qsBucketExample+"}", func(bucket string, v Value) {
				c.qsBucket(quota.LimitName{Namespace: name, Limit: bucket}, v, 0)
			})
		}},
	})
	if !ok {
		return
	}
	if byDefault.node != nil {
		c.qsBucket(quota.LimitName{Namespace: name, Limit: quota.Default}, byDefault, 0)
	}
	switch {
	case template.node != nil:
		c.qsBucket(quota.LimitName{Namespace: name, Limit: quota.Template}, template, maxKeys)
		if maxKeys > 0 {
			c.note(maxKeysAt.path, "", "becomes max_keys of the template, which every node counts for itself")
		}
	case maxKeysAt.node != nil:
		c.note(maxKeysAt.path, "", "is not carried over, because there is no dynamic_bucket_template")
	}
	if byDefault.node != nil && template.node != nil {
		c.note(byDefault.path, "remove one of the two",
			"is combined with a dynamic_bucket_template, with which quotaservice does not start; here the template takes precedence, and the default is never used")
	}
}

// qsName reads a name that repeats the key of its map.
func (c *conversion) qsName(name string) Field {
	return Field{name, "", func(v Value) { v.scalar(text(new(string), "a name")) }}
}

// qsBucket converts a bucket to a limit.
func (c *conversion) qsBucket(name quota.LimitName, v Value, maxKeys int64) {
	b := qsBucket{maxKeys: maxKeys}
	faults := len(c.faults)
	if _, ok := v.Fields(qsBucketExample, c.qsBucketFields(&b)); !ok || len(c.faults) > faults {
		return
	}
	c.keep(c.qsLimit(name, b.withDefaults(), v), v)
}

func (c *conversion) qsBucketFields(b *qsBucket) []Field {
	millis := func(to *int64) func(Value) {
		return func(v Value) { v.scalar(whole(to, -1, quota.MaxPause.Milliseconds())) }
	}
	return []Field{
		c.qsName("name"),
		c.qsName("namespace"),
		{"size", "", func(v Value) { v.scalar(whole(&b.size, 0, quota.MaxTokens)) }},
		{"fill_rate", "", func(v Value) { v.scalar(whole(&b.fillRate, 0, quota.MaxTokens)) }},
		{"wait_timeout_millis", "", millis(&b.waitMillis)},
		{"max_idle_millis", "", millis(&b.idleMillis)},
		{"max_debt_millis", "", millis(&b.debtMillis)},
		{"max_tokens_per_request", "", func(v Value) { v.scalar(whole(&b.maxTokens, 0, quota.MaxTokens)) }},
	}
}

// withDefaults fills in missing values as quotaservice does.
func (b qsBucket) withDefaults() qsBucket {
	set := func(to *int64, v int64) {
		if *to == 0 {
			*to = v
		}
	}
	set(&b.size, 100)
	set(&b.fillRate, 50)
	set(&b.waitMillis, 1000)
	set(&b.idleMillis, -1)
	set(&b.debtMillis, 10000)
	set(&b.maxTokens, b.fillRate)
	return b
}

// qsLimit converts a bucket with its defaults filled in.
func (c *conversion) qsLimit(name quota.LimitName, b qsBucket, v Value) quota.Limit {
	l := quota.Limit{LimitName: name, MaxCost: b.maxTokens, MaxKeys: b.maxKeys}
	l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: b.fillRate, Per: time.Second}, Burst: b.size})
	l.MaxWait = millis(b.waitMillis)
	l.MaxDebt = millis(b.debtMillis)
	if l.MaxWait > l.MaxDebt {
		c.note(join(v.path, "wait_timeout_millis"), "", "%s is longer than the debt of %s that can be waited for; max_wait becomes %s", phrase.Span(l.MaxWait), phrase.Span(l.MaxDebt), phrase.Span(l.MaxDebt))
		l.MaxWait = l.MaxDebt
	}
	switch {
	case b.idleMillis <= 0:
	case name.Limit == quota.Template:
		l.Idle = max(millis(b.idleMillis), time.Second)
		if millis(b.idleMillis) < time.Second {
			c.note(join(v.path, "max_idle_millis"), "", "is less than a second; idle becomes 1s")
		}
	default:
		c.note(join(v.path, "max_idle_millis"), "set idle in the settings of the nodes", "is not carried over; only a template has an idle time of its own")
	}
	return l
}

func millis(n int64) time.Duration { return time.Duration(max(n, 0)) * time.Millisecond }
