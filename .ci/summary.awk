# Reads the events of go test -json. Prints a line per package, the whole output
# of each test that failed, and each skipped test with its reason. Writes
# "passed failed skipped" to the file named by counts. A package that fails
# without a failed test (it does not build, it crashed, it timed out) counts as
# one. What failed tests complained of is written to the file named by why: .ci/run says it
# again at its end. Of the stage "race" only the number of skipped tests is told. Exits 1 when a test skipped for something missing.

# str returns the string value of a field of the event, still escaped.
function str(field,   at, rest) {
	at = index($0, "\"" field "\":\"")
	if (at == 0) return ""
	rest = substr($0, at + length(field) + 4)
	if (!match(rest, /^([^"\\]|\\.)*/)) return ""
	return substr(rest, 1, RLENGTH)
}

function plain(s) {
	gsub(/\\\\/, "\001", s)
	gsub(/\\n/, "\n", s)
	gsub(/\\t/, "\t", s)
	gsub(/\\"/, "\"", s)
	gsub(/\\u003c/, "<", s)
	gsub(/\\u003e/, ">", s)
	gsub(/\\u0026/, "\\&", s)
	gsub(/\\u001b\[[0-9;]*m/, "", s)
	gsub("\001", "\\", s)
	return s
}

# complaints returns what a test said: the lines that its own file and line begin, each with at
# most 30 lines that go on with it, but those of what its processes said.
function complaints(id, text,   n, i, line, out, more) {
	n = split(text, line, "\n")
	for (i = 1; i <= n; i++) {
		if (line[i] ~ /^panic: |^ +[a-z_0-9]+_test\.go:[0-9]+: /) more = line[i] ~ /harness_test/ ? 0 : 31
		else if (line[i] !~ /^        /) more = 0
		if (more-- > 0) out = out "  " substr(line[i], 1, 400) "\n"
	}
	return "  " id "\n" out
}

/^\{/ {
	action = str("Action"); pkg = str("Package"); test = str("Test")
	id = pkg " " test
	if (action == "output") {
		text = plain(str("Output"))
		if (test == "") { if (text !~ /^(PASS|=== )/) said[pkg] = said[pkg] text }
		else output[id] = output[id] text
	} else if (action == "build-output") {
		printf "%s", plain(str("Output"))
	} else if (test != "") {
		if (action == "pass") { passed++; delete output[id] }
		if (action == "fail") { failed++; bad[pkg]++; printf "%s", output[id]; complained = complained complaints(id, output[id]); delete output[id] }
		if (action == "skip") {
			skipped++
			reason[id] = output[id]
			if (output[id] ~ /not installed|not found|no such file|is missing|executable file|need root/) lacking = lacking "\n  " id
			delete output[id]
		}
	} else if (action == "pass" || action == "skip") {
		printf "%s", said[pkg]
	} else if (action == "fail") {
		if (!bad[pkg]) {
			failed++
			# A crash or a time limit leaves tests unfinished: show what they said.
			for (id in output) if (index(id, pkg " ") == 1) printf "%s", output[id]
		}
		printf "%s", said[pkg]
	}
	next
}

{ print } # not an event: what the go command itself says

END {
	if (stage == "race") printf "%d tests left out by -short: they run in the next stage\n", skipped
	else for (id in reason) printf "skipped: %s\n%s", id, reason[id]
	printf "%s", complained > why
	if (lacking != "") printf "skipped for something missing; install it in .ci/run:%s\n", lacking
	printf "%d %d %d\n", passed, failed, skipped > counts
	exit lacking != ""
}
