package apijson

import "testing"

func TestPlainEnums(t *testing.T) {
	for summary, want := range map[string]string{
		`node="n2" change=NODE_CHANGE_DRAIN`:                                  `node="n2" change=drain`,
		`changes=(1)[{namespace="web" kind=CHANGE_KIND_CHANGED}] version=2`:   `changes=(1)[{namespace="web" kind=changed}] version=2`,
		`status=OP_STATUS_ERR_UNKNOWN_POLICY`:                                 `status=err_unknown_policy`,
		`comment="NODE_CHANGE_DRAIN \" NODE_CHANGE_DRAIN" class=CLASS_BANNED`: `comment="NODE_CHANGE_DRAIN \" NODE_CHANGE_DRAIN" class=banned`,
		`key="cut off NODE_CHANGE_DRAIN...`:                                   `key="cut off NODE_CHANGE_DRAIN...`,
		`name=NOT_OF_THE_API kind=17`:                                         `name=NOT_OF_THE_API kind=17`,
	} {
		if got := PlainEnums(summary); got != want {
			t.Errorf("%s: %s; want %s", summary, got, want)
		}
	}
}
