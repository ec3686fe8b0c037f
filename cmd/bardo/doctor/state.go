package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/auditing"
	"bardo.money/gateway/internal/config"
)

func checkHome(h home.Dir) Finding {
	const check = "state directory"
	st, err := os.Stat(string(h))
	if err != nil {
		return fail(check, "make the directory, or set BARDO_HOME to another one", "%v", err)
	}
	if !home.Private(st.Mode()) {
		return fail(check, fmt.Sprintf("chmod 700 %s", h), "%s has mode %04o: other users can look into it", h, st.Mode().Perm())
	}
	f, err := os.CreateTemp(string(h), ".doctor-*")
	if err != nil {
		return fail(check, "give this user the directory, or set BARDO_HOME to another one", "%s is not writable", h)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fail(check, "look at the file system", "%v", err)
	}
	return pass(check, "%s", h)
}

// checkDescriptors reports how many concurrent client connections the file limit allows.
func checkDescriptors(connections int64) Finding {
	const check, few = "open files", 1000
	if connections < few {
		return fail(check, "raise the limit (ulimit -Hn, LimitNOFILE, or --ulimit nofile of a container)", "they allow %d connections of clients at once", connections)
	}
	return pass(check, "they allow %d connections of clients at once", connections)
}

// checkFiles checks the files that the gateway must be able to open at its start.
func checkFiles(h home.Dir, cfg *config.Config) (found []Finding) {
	files := map[string]string{}
	if path, ok := strings.CutPrefix(cfg.Telemetry.Events, "file:"); ok {
		files["telemetry.events"] = path
	}
	if cfg.Audit.File != "" {
		files["audit.file"] = auditing.Path(cfg.Audit.File, string(h))
	}
	for _, check := range slices.Sorted(maps.Keys(files)) {
		if err := canAppend(files[check]); err != nil {
			found = append(found, fail(check, "make its directory, give this user the file, or correct "+check, "%v", err))
			continue
		}
		found = append(found, pass(check, "%s", files[check]))
	}
	return found
}

// canAppend reports why a file cannot be written to. It does not create the file.
func canAppend(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0) // a named pipe may have no reader
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nil
	case err == nil:
		return f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// checkPepper checks the secret that key hashes depend on; it is required if there are keys.
func checkPepper(ctx context.Context, h home.Dir, cfg *config.Config) Finding {
	const check = "pepper"
	path := home.PepperPath(cfg.Store.LedgerFile(string(h)))
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if n, err := countKeys(ctx, h, cfg); err == nil && n > 0 {
			return failWith(check, home.LostPepper(path, n))
		}
		return pass(check, "made with the first key")
	}
	if err != nil {
		return fail(check, "look at the file", "%v", err)
	}
	if !home.Private(st.Mode()) {
		return fail(check, "chmod 600 "+path, "%s has mode %04o: other users can read it", path, st.Mode().Perm())
	}
	if _, err := h.Pepper(cfg.Store.LedgerFile(string(h))); err != nil {
		return failWith(check, err)
	}
	return pass(check, "%s", path)
}

func countKeys(ctx context.Context, h home.Dir, cfg *config.Config) (n int, err error) {
	if !cfg.Store.Ledger.Postgres() {
		if _, err := os.Stat(cfg.Store.LedgerFile(string(h))); err != nil {
			return 0, err
		}
	}
	books, err := h.OpenLedger(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, books.Close()) }()
	return home.KeysInUse(ctx, books)
}

// checkLedger opens and audits the ledger. A ledger that does not exist yet passes.
func checkLedger(ctx context.Context, h home.Dir, cfg *config.Config) Finding {
	const check = "ledger"
	if cfg.Store.Ledger.Postgres() {
		return auditLedger(ctx, h, cfg, cfg.Store.Ledger.String())
	}
	path := cfg.Store.LedgerFile(string(h))
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return pass(check, "%s will be made at the first start", path)
	}
	if err != nil {
		return fail(check, "look at the file", "%v", err)
	}
	if !home.Private(st.Mode()) {
		return fail(check, "chmod 600 "+path, "%s has mode %04o: other users can read it", path, st.Mode().Perm())
	}
	return auditLedger(ctx, h, cfg, path)
}

// auditLedger opens the ledger and audits it.
func auditLedger(ctx context.Context, h home.Dir, cfg *config.Config, path string) (f Finding) {
	const check = "ledger"
	books, err := h.OpenLedger(ctx, cfg)
	if err != nil {
		return failWith(check, err)
	}
	defer func() {
		if err := books.Close(); err != nil && f.OK {
			f = fail(check, "look at the file system", "%v", err)
		}
	}()
	if s := control.ReadLedger(ctx, h); s.Unready != "" {
		return fail(check, "make room on its disk, or end the program that holds it: nothing has to be restarted", "the running gateway says that %s", s.Unready)
	}
	r, err := books.Audit(ctx)
	if err != nil {
		return fail(check, "restore the file from a backup", "%v", err)
	}
	if !r.OK {
		return fail(check, "`bardo audit` shows the rows", "%s does not hold", path)
	}
	return pass(check, "%s holds: %d accounts, %d journals", path, r.Accounts, r.Journals)
}
