package resp

import "strconv"

// reply collects answers in the version of the protocol that its connection
// speaks: RESP2, or RESP3 after HELLO 3.
type reply struct {
	out   []byte
	three bool
}

func (r *reply) line(kind byte, text string) {
	r.out = append(append(append(r.out, kind), text...), '\r', '\n')
}

func (r *reply) number(kind byte, n int64) {
	r.out = append(strconv.AppendInt(append(r.out, kind), n, 10), '\r', '\n')
}

// simple writes a status without line ends.
func (r *reply) simple(text string) { r.line('+', text) }

// fail writes an error: a code in capitals, a space, and words. Whatever would end
// the line is replaced.
func (r *reply) fail(text string) {
	r.out = append(r.out, '-')
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		r.out = append(r.out, c)
	}
	r.out = append(r.out, '\r', '\n')
}

func (r *reply) int(n int64) { r.number(':', n) }

func (r *reply) text(s string) {
	r.number('$', int64(len(s)))
	r.out = append(append(r.out, s...), '\r', '\n')
}

func (r *reply) bytes(s []byte) {
	r.number('$', int64(len(s)))
	r.out = append(append(r.out, s...), '\r', '\n')
}

// array begins an array of n answers.
func (r *reply) array(n int) { r.number('*', int64(n)) }

// mapping begins n pairs: a map, which RESP2 has as an array.
func (r *reply) mapping(n int) {
	if r.three {
		r.number('%', int64(n))
		return
	}
	r.array(2 * n)
}

func (r *reply) null() {
	if r.three {
		r.line('_', "")
		return
	}
	r.line('$', "-1")
}

// noArray stands where an array would be.
func (r *reply) noArray() {
	if r.three {
		r.null()
		return
	}
	r.array(-1)
}
