package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"bardo.money/gateway/internal/config"
)

// private is a mode that shows nothing to other users.
func private(m fs.FileMode) bool { return m.Perm()&0o077 == 0 }

func checkHome(h home) finding {
	const check = "state directory"
	st, err := os.Stat(string(h))
	if err != nil {
		return broken(check, "make the directory, or set BARDO_HOME to another one", "%v", err)
	}
	if !private(st.Mode()) {
		return broken(check, fmt.Sprintf("chmod 700 %s", h), "%s has mode %04o: other users can look into it", h, st.Mode().Perm())
	}
	f, err := os.CreateTemp(string(h), ".doctor-*")
	if err != nil {
		return broken(check, "give this user the directory, or set BARDO_HOME to another one", "%s is not writable", h)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return broken(check, "look at the file system", "%v", err)
	}
	return fine(check, "%s", h)
}

// checkPepper wants the secret that the hashes of keys depend on, wherever there are keys.
func checkPepper(ctx context.Context, h home, cfg *config.Config) finding {
	const check = "pepper"
	path := pepperPath(cfg.Store.LedgerFile(string(h)))
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if n, err := countKeys(ctx, h, cfg); err == nil && n > 0 {
			return brokenBy(check, lostPepper(path, n))
		}
		return fine(check, "made with the first key")
	}
	if err != nil {
		return broken(check, "look at the file", "%v", err)
	}
	if !private(st.Mode()) {
		return broken(check, "chmod 600 "+path, "%s has mode %04o: other users can read it", path, st.Mode().Perm())
	}
	if _, err := h.pepper(cfg.Store.LedgerFile(string(h))); err != nil {
		return brokenBy(check, err)
	}
	return fine(check, "%s", path)
}

func countKeys(ctx context.Context, h home, cfg *config.Config) (n int, err error) {
	if _, err := os.Stat(cfg.Store.LedgerFile(string(h))); err != nil {
		return 0, err
	}
	books, err := h.openLedger(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, books.Close()) }()
	return keysInUse(ctx, books)
}

// checkLedger opens and proves the books; a ledger that does not exist yet is none of its business.
func checkLedger(ctx context.Context, h home, cfg *config.Config) (f finding) {
	const check = "ledger"
	path := cfg.Store.LedgerFile(string(h))
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fine(check, "%s will be made at the first start", path)
	}
	if err != nil {
		return broken(check, "look at the file", "%v", err)
	}
	if !private(st.Mode()) {
		return broken(check, "chmod 600 "+path, "%s has mode %04o: other users can read it", path, st.Mode().Perm())
	}
	books, err := h.openLedger(ctx, cfg)
	if err != nil {
		return brokenBy(check, err)
	}
	defer func() {
		if err := books.Close(); err != nil && f.OK {
			f = broken(check, "look at the file system", "%v", err)
		}
	}()
	if s := h.ledgerState(ctx); s.Unready != "" {
		return broken(check, "make room on its disk, or end the program that holds it: nothing has to be restarted", "the running gateway says that %s", s.Unready)
	}
	r, err := books.Audit(ctx)
	if err != nil {
		return broken(check, "restore the file from a backup", "%v", err)
	}
	if !r.OK {
		return broken(check, "`bardo audit` shows the rows", "%s does not hold", path)
	}
	return fine(check, "%s holds: %d accounts, %d journals", path, r.Accounts, r.Journals)
}
