package rest

import (
	"bufio"
	"net/http"
	"time"

	"github.com/quorate/quorate/api"
)

// getBackup sends the backup file. If an error occurs after the first byte, it closes the
// connection before the end of the body. The file itself also shows whether it is complete.
func (r *router) getBackup(w http.ResponseWriter, req *http.Request) (int, error) {
	if _, err := query(req); err != nil {
		return 0, err
	}
	out := &backupBody{w: w, conn: http.NewResponseController(w)}
	if req.Method == http.MethodHead { // asks only for the headers
		out.begin()
		return http.StatusOK, nil
	}
	ctx, stop := r.WhileAuthorized(req.Context())
	b := bufio.NewWriterSize(out, api.BackupPiece)
	err := r.Backup.Copy(ctx, b)
	if gone := stop(); gone != nil {
		err = gone
	}
	if err == nil {
		err = b.Flush()
	}
	switch {
	case err == nil:
		return http.StatusOK, nil
	case !out.begun:
		return 0, api.BackupFault(err)
	}
	r.Log.Warn("a backup was not sent completely", "err", err)
	_ = out.conn.SetWriteDeadline(time.Unix(1, 0)) // so that the end of the body cannot be sent
	return http.StatusOK, api.BackupFault(err)
}

// backupBody writes a body of any length, with a deadline for each piece.
type backupBody struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	begun bool
}

func (b *backupBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begin()
	}
	_ = b.conn.SetWriteDeadline(time.Now().Add(api.BackupStall))
	return b.w.Write(p)
}

func (b *backupBody) begin() {
	b.begun = true
	_ = b.conn.SetReadDeadline(time.Time{}) // a recorder in tests has no deadlines
	b.w.Header().Set("Content-Type", "application/octet-stream")
	b.w.Header().Set("Cache-Control", "no-store")
}
