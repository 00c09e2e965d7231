// Package console serves Quorate's console: pages for operators and planners, on the node's HTTP
// port under /console/. All files are in the binary.
//
// # Permissions
//
// The console has no rights of its own. Every read and every change is a call to the services of
// the node in this process ([Deps].Conn) as the reader of the page, so permissions, validation, the
// audit log and the API's own limit apply. A page never accesses the node in another way.
//
// # Adding a page
//
// One line in registry.go, one Go file, one template:
//
//	{Path: "limits", Title: "Limits", Group: "Limits", Template: "limits", Need: rbac.LimitsRead, Load: loadLimits, Live: []string{"list"}}
//
// Load makes the calls with r.Context() and returns one value. The template templates/limits.html
// defines "content", which gets that value. Each live part is a template of its own, named in
// Page.Live and used twice:
//
//	{{define "content"}}<header class="title"><h1>Limits</h1></header>
//	<section class="card" data-live="list">{{template "list" .}}</section>{{end}}
//	{{define "list"}}<table id="t-limits" data-sort>...</table>{{end}}
//
// The page is loaded again every Page.Every, and parts whose HTML has changed are sent as
// server-sent events and merged into the page (live.go, static/app.js) without further code. Load
// runs that often for each open page: it must be cheap and bounded.
//
// templates/parts.html has the shared parts; its comments describe their data: badge, chart,
// problem, act, diff, field, pager. funcs.go has the functions: link, num, dec, part, dur, time,
// badge, act, danger, about, clip. A table with an ID and data-sort can be sorted; a cell's data-v
// is its sort key. It must be in <div class="scroll" tabindex="0" role="region" aria-label="...">.
// html/template escapes all text: never convert text to template.HTML.
//
// # Charts
//
// A [Chart] is shown by {{template "chart" .Chart}}, not within a live part. Page.Points adds
// points by its ID while the page is live. A form with data-chart-for="ID" requests Chart.From (an
// address of Page.Data) whenever its fields change. The answer is {"chart": Chart, "out": {NAME:
// text}}; out goes to the elements data-out="NAME".
//
// # Changes
//
// A change is an [Action]. A button made by {{template "act" (act "limits/delete" "Delete ..."
// "namespace" .Namespace)}} shows the [Confirmation] (what will happen, fields, a [Diff] made by
// [Lines]) in a dialog; its button calls Do and shows the [Result]. Confirm may read r.PostForm and
// return a problem with a field together with the Confirmation: then the form is shown again with
// the problem at the field. Set Field.Value from r.PostForm to restore input. A change that is sent
// twice is made once (onceStore). Without JavaScript the same steps are pages.
//
// # Security
//
// With authentication, a browser signs in with a bearer token of the cluster or a JWT of the OIDC
// issuer, or has a client certificate. The session is in the memory of this node; its cookie is
// HttpOnly and SameSite=Strict, and __Host- over TLS. The credential is checked again for every
// request, so revoking it ends the session. The Content-Security-Policy allows only our own files:
// no inline scripts, no style attributes, no eval; http.CrossOriginProtection rejects changes from
// pages of other sites.
//
// # Bounds
//
// 1000 sessions, of 12 hours, or 2 hours when idle; 100 live pages, each of which makes its calls
// once per interval; forms of 5 MiB; 2000 remembered changes; diffs of 1500 lines. Every list on a
// page is bounded or paged.
//
// # Third-party files
//
// static contains htmx 4.0.1 and uPlot 1.6.32 as in npm (htmx.org, uplot), with their licenses;
// TestVendored has their SHA-256.
package console
