package postgres

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestASilentDatabaseIsWaitedFor for three seconds, and for 25 while it answers on other connections and works on a statement; a deadline that the driver sets ends the wait immediately.
func TestASilentDatabaseIsWaitedFor(t *testing.T) {
	for _, row := range []struct {
		name           string
		answersFor     time.Duration // on other connections
		busyFor        time.Duration // with a statement; zero means always
		written, limit time.Duration // when the server writes, and when the driver's deadline passes; zero means never
		want           time.Duration
		read           int
		probes         int
		why            error
	}{
		{name: "it does not answer", want: silentTime, probes: 1, why: ErrSilent},
		{name: "it is not busy", answersFor: time.Hour, busyFor: time.Second, want: silentTime, probes: 1, why: ErrNotBusy},
		{name: "its answer is lost", answersFor: time.Hour, busyFor: 5 * time.Second, want: 2 * silentTime, probes: 2, why: ErrNotBusy},
		{name: "it answers others", answersFor: time.Hour, want: answerTimeout, probes: 8},
		{name: "it ceases to answer", answersFor: 10 * time.Second, want: 4 * silentTime, probes: 4, why: ErrSilent},
		{name: "a slow statement", answersFor: time.Hour, written: 10 * time.Second, want: 10 * time.Second, read: 5, probes: 3},
		{name: "a context ends", answersFor: time.Hour, limit: time.Second, want: time.Second},
		{name: "a context ends later", answersFor: time.Hour, limit: 4 * time.Second, want: 4 * time.Second, probes: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, server := net.Pipe()
				defer func() { _ = errors.Join(ours.Close(), server.Close()) }()
				began, probes := time.Now(), 0
				c := &answering{Conn: ours, check: func() error {
					probes++
					switch passed := time.Since(began); {
					case passed >= row.answersFor:
						return ErrSilent
					case row.busyFor > 0 && passed >= row.busyFor:
						return ErrNotBusy
					}
					return nil
				}}
				if row.written > 0 {
					time.AfterFunc(row.written, func() { _, _ = server.Write([]byte("bytes")) })
				}
				if row.limit > 0 {
					time.AfterFunc(row.limit, func() { _ = c.SetDeadline(time.Now()) })
				}
				n, err := c.Read(make([]byte, 9))
				if took := time.Since(began); took != row.want || n != row.read || errors.Is(err, os.ErrDeadlineExceeded) != (row.read == 0) || !errors.Is(err, row.why) && row.why != nil || probes != row.probes {
					t.Errorf("%d bytes and %v after %s and %d probes, want %d after %s and %d", n, err, took, probes, row.read, row.want, row.probes)
				}
			})
		})
	}
}
