// Package console serves Quorate's console: pages for operators and planners, on the
// node's HTTP port under /console/, out of the binary and nothing else.
//
// # What it may do
//
// The console has no rights of its own. Every read and every change is a call on the
// services of the node in this process ([Deps].Conn), made as whoever looks at the page:
// permissions, validation, the audit log and the API's own limit are those of the API.
// A page never asks the node in another way.
//
// # Adding a page
//
// One line in registry.go, one Go file, one template:
//
//	{Path: "limits", Title: "Limits", Group: "Limits", Template: "limits", Need: rbac.LimitsRead, Load: loadLimits, Live: []string{"list"}}
//
// Load makes the calls with r.Context() and returns one value. The template
// templates/limits.html defines "content", which is given that value. What is to be live
// is a template of its own, named in Page.Live, shown twice over:
//
//	{{define "content"}}<header class="title"><h1>Limits</h1></header>
//	<section class="card" data-live="list">{{template "list" .}}</section>{{end}}
//	{{define "list"}}<table id="t-limits" data-sort>...</table>{{end}}
//
// Every Page.Every the page is loaded again, and a part whose HTML has changed is sent as a
// server-sent event and merged into the page (live.go, static/app.js); nothing more is
// needed for it. Load runs that often for each open page: it must be cheap and bounded.
//
// templates/parts.html has what pages share; its comments say what each part is given:
// badge, chart, problem, act, diff, field, pager. funcs.go has the functions: link, num, dec, part,
// dur, time, badge, act, danger, about, clip. A table with an id and data-sort sorts; a cell's data-v is what it is
// sorted by. It stands in <div class="scroll" tabindex="0" role="region" aria-label="...">.
// Text from outside is escaped by html/template: never make template.HTML of it.
//
// # Charts
//
// A [Chart] is shown by {{template "chart" .Chart}}, not within a live part. Page.Points adds points to it by its
// ID while the page is live. A form with data-chart-for="ID" asks Chart.From (an address of Page.Data)
// again whenever its fields change: the answer is {"chart": Chart, "out": {NAME: text}},
// and out goes to the elements data-out="NAME".
//
// # Changes
//
// A change is an [Action]: a button made by {{template "act" (act "limits/delete" "Delete ..." "namespace" .Namespace)}}
// shows the [Confirmation] (what will happen, fields, a [Diff] made by [Lines]) in a dialog; its
// button calls Do and shows the [Result]. Confirm may look at r.PostForm and return a
// problem with a field beside the Confirmation: then the form is shown again with that at
// the field. What was filled in is put back by setting Field.Value from r.PostForm. A change
// that is sent twice is made once (onceStore). Without JavaScript the same steps are pages.
//
// # Security
//
// Where authentication is on, a browser signs in with a bearer token of the cluster or a
// JWT of the OIDC issuer, or comes with a client certificate. The session is in the memory
// of this node; its cookie is HttpOnly and SameSite=Strict, and __Host- over TLS. The
// credential is checked again for every request, so that revoking it ends the session.
// Content-Security-Policy allows files of our own alone: no inline scripts, no style
// attributes, no eval; http.CrossOriginProtection refuses changes from pages of others.
//
// # Bounds
//
// 1000 sessions, of 12 hours, 2 when unused; 100 live pages, of which each reads its calls once per turn; a form 5 MiB; 2000 changes
// remembered; a diff compares 1500 lines. Every list on a page has a bound or is paged.
//
// # What is not ours
//
// static has htmx 4.0.1 and uPlot 1.6.32 as npm has them (htmx.org, uplot), with their
// licences; TestVendored has their SHA-256.
package console
