package resp

import "strconv"

// reply buffers answers in the protocol version of its connection: RESP2, or RESP3 after HELLO 3.
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

// simple writes a status, which must not contain line ends.
func (r *reply) simple(text string) { r.line('+', text) }

// fail writes an error: a code in capitals, a space, and a text. It replaces characters that would
// end the line.
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

// mapping begins a map of n pairs, which RESP2 represents as an array.
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

// noArray writes a null in place of an array.
func (r *reply) noArray() {
	if r.three {
		r.null()
		return
	}
	r.array(-1)
}
