package api

import (
	"bufio"
	"net/http"
	"time"
)

// getBackup sends the file as it is. When something fails after the first byte, the
// connection ends before the body does; and the file says itself whether it is whole.
func (r *router) getBackup(w http.ResponseWriter, req *http.Request) int {
	if _, f := query(req); f != nil {
		return writeFault(w, f)
	}
	out := &backupBody{w: w, conn: http.NewResponseController(w)}
	b := bufio.NewWriterSize(out, backupPiece)
	err := r.Backup.Copy(req.Context(), b)
	if err == nil {
		err = b.Flush()
	}
	switch {
	case err != nil && !out.begun:
		return writeFault(w, backupFault(err))
	case err != nil:
		r.log.Warn("a backup was not sent whole", "err", err)
		visitOf(req.Context()).ended(nil, backupFault(err))
		_ = out.conn.SetWriteDeadline(time.Unix(1, 0)) // so that the end of the body cannot be sent
	}
	return http.StatusOK
}

// backupBody is a body of any length, each piece of which must leave in its time.
type backupBody struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	begun bool
}

func (b *backupBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		_ = b.conn.SetReadDeadline(time.Time{}) // a recorder in tests has none
		b.w.Header().Set("Content-Type", "application/octet-stream")
		b.w.Header().Set("Cache-Control", "no-store")
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(backupStall))
	return b.w.Write(p)
}
