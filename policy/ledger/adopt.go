package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// write applies a note that another gateway could not write. A note that was applied before changes nothing.
func (b *book) write(n *note, instance int64) error {
	if err := b.keep(n); err != nil || n.Charge == nil {
		return err
	}
	c := *n.Charge
	if !n.Prepaid {
		_, err := b.record(c)
		return err
	}
	account, err := b.accountOf(c.Account)
	if err != nil {
		return err
	}
	if charged, err := b.isJournaled(c.RequestID); charged || err != nil {
		return err // its request may be pruned: it is older than the retention
	}
	_, err = b.capture(c, from{account, instance, n.Hold})
	return err
}

// isJournaled reports whether a request was ever charged.
func (b *book) isJournaled(request string) (is bool, err error) {
	err = b.row(`SELECT EXISTS (SELECT 1 FROM journal WHERE idem = 'request:' || ?)`, request).Scan(&is)
	return is, err
}

// adopt applies the notes of dead gateways, against their blocks. It returns those that the store refuses.
func (b *book) adopt(left []leftover) (refused map[*note]error, err error) {
	refused = map[*note]error{}
	for _, f := range left {
		for _, n := range f.notes {
			o := &op{apply: func(b *book) error { return b.write(n, f.instance) }}
			if err := b.apply(o); err != nil {
				return nil, err
			}
			if isOutage(o.err) {
				return nil, o.err
			}
			if o.err != nil {
				refused[n] = o.err
			}
		}
	}
	return refused, nil
}

// recoverDead applies the spill files of gateways that died, and returns their blocks. All their captured charges are either committed or in
// their spill files, so nothing of theirs stays open. Blocks of running gateways are not touched, nor those of a dead one whose spill file
// another process is applying.
func (l *Ledger) recoverDead(write func(func(*book) error) error) (c instances, err error) {
	left, taken, err := abandoned(l.path)
	defer func() {
		for _, f := range left {
			err = errors.Join(err, f.close())
		}
	}()
	if err != nil {
		return instances{}, err
	}
	if c, err = l.census(); err != nil {
		return instances{}, err
	}
	c.dead = slices.DeleteFunc(c.dead, func(id int64) bool { return slices.Contains(taken, id) })
	if len(c.dead)+len(left) == 0 {
		return c, nil
	}
	var refused map[*note]error
	err = write(func(b *book) (err error) {
		if refused, err = b.adopt(left); err != nil {
			return err
		}
		return b.removeDead(c.dead)
	})
	if err != nil {
		return c, err
	}
	return c, l.removeAdopted(left, refused)
}

// removeAdopted removes spill files that were applied. Refused notes are written to a file beside the store, for the operator.
func (l *Ledger) removeAdopted(left []leftover, refused map[*note]error) error {
	for _, f := range left {
		if len(f.notes) > 0 {
			l.o.Log.Warn("ledger: wrote the charges that a gateway could not write before it ended", "changes", len(f.notes), "file", f.path)
		}
		for _, n := range f.notes {
			if err := l.keepRefused(f.path, n, refused[n]); err != nil {
				return err
			}
		}
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	return nil
}

// refusedSuffix is the suffix of files with refused notes, one JSON object per line.
const refusedSuffix = ".refused"

func (l *Ledger) keepRefused(path string, n *note, why error) error {
	if why == nil {
		return nil
	}
	l.o.Log.Error("ledger: the store refuses a charge that waited for it", "error", why, "kept_in", path+refusedSuffix)
	line, err := json.Marshal(map[string]any{"error": why.Error(), "change": n})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+refusedSuffix, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", line)
	return errors.Join(err, f.Sync(), f.Close())
}

// refusedFiles are the names of the files with refused notes.
func refusedFiles(store string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(store))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(store)+".") && strings.HasSuffix(e.Name(), ".spill"+refusedSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
