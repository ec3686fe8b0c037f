package session

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"bardo.money/gateway/policy"
)

// Document is a text that an agent stores for retrieval.
type Document struct {
	Key     string // chosen by the agent
	ID      string // its name in records
	Title   string
	Source  string
	At      time.Time
	Expires time.Time
	Bytes   int
	Text    string // "" in lists

	Passages []Passage // set when it is stored, nil when it is read
}

// Passage is a piece of a document's text, with its vector.
type Passage struct {
	Key    string // of its document
	N      int    // its index in the document
	Start  int    // byte offset in the text
	Stop   int
	Tag    string // of the model whose vector it is; "" for none
	Vector []float32
}

// Limits of an agent's documents.
const (
	MaxDocument  = 32 << 10 // bytes of a text
	MaxTitle     = 256
	MaxSource    = 512
	maxDocuments = 256
	maxTextBytes = 512 << 10 // bytes of all texts of a session
)

// Memory stores documents. Safe for concurrent use. Errors are those of this package, or the store's.
type Memory interface {
	// Remember stores a document. It replaces one with the same key.
	Remember(ctx context.Context, session string, d *Document) error
	// Documents returns those of a session that have not expired, by key; Document returns one; Forget deletes one.
	Documents(ctx context.Context, session string) ([]Document, error)
	Document(ctx context.Context, session, key string) (Document, error)
	Forget(ctx context.Context, session, key string) error
	// Passages returns those of all documents of a session of the account, in a stable order.
	Passages(ctx context.Context, account policy.Account, session string) ([]Passage, error)
	// SetVector stores the vector of a passage by another model.
	SetVector(ctx context.Context, session string, p *Passage) error
}

var _ Memory = (*SQLite)(nil)

// NewDocument returns a document that is stored now; life is limited by its session's.
func (b *Book) NewDocument(s *Session, key string, life time.Duration) Document {
	d := Document{Key: key, ID: newID("mem_"), At: b.now()}
	if d.Expires = d.At.Add(life); life <= 0 || d.Expires.After(s.Expires) {
		d.Expires = s.Expires
	}
	return d
}

// head has the stored members of a document except its text.
type head struct {
	Title  string `json:"title,omitempty"`
	Source string `json:"source,omitempty"`
}

// rowName binds a sealed value to its row.
func rowName(kind, session, key string) string { return kind + " " + session + " " + key }

// Remember implements Memory.
func (s *SQLite) Remember(ctx context.Context, session string, d *Document) error {
	h, err := json.Marshal(head{d.Title, d.Source})
	if err != nil {
		return err
	}
	return s.atomically(ctx, func(tx *sql.Tx) error {
		if err := s.makeRoom(ctx, tx, session, d); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO memory (session, key, id, at, expires, bytes, head, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, session, d.Key, d.ID,
			d.At.UnixMicro(), d.Expires.UnixMicro(), len(d.Text), s.seal.Seal(rowName("head", session, d.Key), h), s.seal.Seal(rowName("text", session, d.Key), []byte(d.Text)))
		if err != nil {
			return err
		}
		for i := range d.Passages {
			p := &d.Passages[i]
			_, err := tx.ExecContext(ctx, `INSERT INTO passage (session, key, n, start, stop, tag, vector) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				session, d.Key, i, p.Start, p.Stop, p.Tag, s.sealVector(session, d.Key, i, p.Vector))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// makeRoom deletes expired documents and the one with the same key. The error is ErrFull if there is still no room.
func (s *SQLite) makeRoom(ctx context.Context, tx *sql.Tx, session string, d *Document) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM memory WHERE expires <= ? OR session = ? AND key = ?`, s.now().UnixMicro(), session, d.Key); err != nil {
		return err
	}
	var documents, bytes int
	err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(bytes), 0) FROM memory WHERE session = ?`, session).Scan(&documents, &bytes)
	switch {
	case err != nil:
		return err
	case documents >= maxDocuments:
		return fmt.Errorf("%w: a session has at most %d documents in its memory", ErrFull, maxDocuments)
	case bytes+len(d.Text) > maxTextBytes:
		return fmt.Errorf("%w: the documents of a session have at most %d bytes together", ErrFull, maxTextBytes)
	}
	return roomFor(ctx, tx, session, len(d.Text))
}

const selectDocument = `SELECT key, id, at, expires, bytes, head, %s FROM memory WHERE session = ?1 AND expires > ?2`

// scanDocument reads a row of selectDocument.
func (s *SQLite) scanDocument(session string, row interface{ Scan(into ...any) error }) (d Document, err error) {
	var at, expires int64
	var sealedHead, text []byte
	if err := row.Scan(&d.Key, &d.ID, &at, &expires, &d.Bytes, &sealedHead, &text); err != nil {
		return d, err
	}
	d.At, d.Expires = time.UnixMicro(at), time.UnixMicro(expires)
	var h head
	if sealedHead, err = s.seal.Open(rowName("head", session, d.Key), sealedHead); err != nil {
		return d, err
	}
	if text, err = s.seal.Open(rowName("text", session, d.Key), text); err != nil {
		return d, err
	}
	err = json.Unmarshal(sealedHead, &h)
	d.Title, d.Source, d.Text = h.Title, h.Source, string(text)
	return d, err
}

// Documents implements Memory.
func (s *SQLite) Documents(ctx context.Context, session string) ([]Document, error) {
	scan := func(rows *sql.Rows) (Document, error) { return s.scanDocument(session, rows) }
	return list(ctx, s.db, scan, fmt.Sprintf(selectDocument, "NULL")+` ORDER BY key`, session, s.now().UnixMicro())
}

// Document implements Memory.
func (s *SQLite) Document(ctx context.Context, session, key string) (Document, error) {
	d, err := s.scanDocument(session, s.db.QueryRowContext(ctx, fmt.Sprintf(selectDocument, "text")+` AND key = ?3`, session, s.now().UnixMicro(), key))
	return d, notFound(err)
}

// Forget implements Memory.
func (s *SQLite) Forget(ctx context.Context, session, key string) error {
	var id string
	return notFound(s.db.QueryRowContext(ctx, `DELETE FROM memory WHERE session = ? AND key = ? AND expires > ? RETURNING id`, session, key, s.now().UnixMicro()).Scan(&id))
}

// Passages implements Memory.
func (s *SQLite) Passages(ctx context.Context, account policy.Account, session string) ([]Passage, error) {
	if ok, err := s.use(ctx, false); !ok {
		return nil, err
	}
	scan := func(rows *sql.Rows) (p Passage, err error) {
		var vector []byte
		if err := rows.Scan(&p.Key, &p.N, &p.Start, &p.Stop, &p.Tag, &vector); err != nil {
			return p, err
		}
		p.Vector, err = s.openVector(session, p.Key, p.N, vector)
		return p, err
	}
	return list(ctx, s.db, scan, `SELECT p.key, n, start, stop, tag, vector FROM passage p JOIN memory m ON m.session = p.session AND m.key = p.key
WHERE p.session = ?1 AND m.expires > ?2 AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND account = ?3) ORDER BY p.key, n`, session, s.now().UnixMicro(), account)
}

// SetVector implements Memory.
func (s *SQLite) SetVector(ctx context.Context, session string, p *Passage) error {
	_, err := s.db.ExecContext(ctx, `UPDATE passage SET tag = ?, vector = ? WHERE session = ? AND key = ? AND n = ? AND start = ? AND stop = ?`,
		p.Tag, s.sealVector(session, p.Key, p.N, p.Vector), session, p.Key, p.N, p.Start, p.Stop)
	return err
}

func vectorName(session, key string, n int) string {
	return rowName("vector", session, strconv.Itoa(n)+" "+key)
}

func (s *SQLite) sealVector(session, key string, n int, v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return s.seal.Seal(vectorName(session, key, n), b)
}

var errVector = errors.New("a vector is broken")

func (s *SQLite) openVector(session, key string, n int, sealed []byte) ([]float32, error) {
	b, err := s.seal.Open(vectorName(session, key, n), sealed)
	if err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, errVector
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

func (s *SQLite) atomically(ctx context.Context, change func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}
