package attestation

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"bardo.money/gateway/internal/sqlite"
)

//go:embed book.sql
var tables string

// Book stores tokens in a file, which is created with the first token. Safe for concurrent use; one process may write, others may read.
type Book struct {
	path string
	db   *sql.DB

	mu   sync.Mutex
	used bool // the file and its table exist
}

// OpenBook opens the file, if it exists.
func OpenBook(path string) (*Book, error) {
	db, err := sqlite.OpenLater(path, nil)
	if err != nil {
		return nil, err
	}
	return &Book{path: path, db: db}, nil
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// Add appends a token, and sets its number and chain hash. The token is on disk when Add returns.
func (b *Book) Add(ctx context.Context, t *Token) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.use(ctx); err != nil {
		return fmt.Errorf("attestations: %s: %w", b.path, err)
	}
	if err := b.append(ctx, t); err != nil {
		return fmt.Errorf("attestations: %s: %w", b.path, err)
	}
	return nil
}

// use creates the file and its table, once.
func (b *Book) use(ctx context.Context) error {
	if b.used {
		return nil
	}
	if err := sqlite.Touch(b.path); err != nil {
		return err
	}
	if err := sqlite.Prepare(ctx, b.db, sqlite.Script(tables)); err != nil {
		return err
	}
	b.used = true
	return nil
}

func (b *Book) append(ctx context.Context, t *Token) (err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	t.Seq, t.Prev = 0, ""
	err = tx.QueryRowContext(ctx, `SELECT seq, hash FROM token ORDER BY seq DESC LIMIT 1`).Scan(&t.Seq, &t.Prev)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	t.Seq++
	t.TokenHash = t.hash()
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO token (seq, hash, token) VALUES (?, ?, ?)`, t.Seq, t.TokenHash, string(line)); err != nil {
		return err
	}
	return tx.Commit()
}

// Export writes the tokens from a number on, one per line. Without a file there are none.
func (b *Book) Export(ctx context.Context, from int64, to io.Writer) (err error) {
	if _, err := os.Stat(b.path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	rows, err := b.db.QueryContext(ctx, `SELECT token FROM token WHERE seq >= ? ORDER BY seq`, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if _, err := io.WriteString(to, line+"\n"); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Latest returns the last tokens, newest first, at most limit. Those that a later one voids do not hold. Without a file there are none.
func (b *Book) Latest(ctx context.Context, limit int) (list []Token, err error) {
	if _, err := os.Stat(b.path); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	rows, err := b.db.QueryContext(ctx, `SELECT token FROM token ORDER BY seq DESC LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	void := map[string]bool{}
	for rows.Next() {
		var line []byte
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		t, err := readToken(line)
		if err != nil {
			return nil, err
		}
		t.revoked = void[t.answer()]
		void[t.answer()] = t.revoked || t.Void != ""
		list = append(list, *t)
	}
	return list, rows.Err()
}
