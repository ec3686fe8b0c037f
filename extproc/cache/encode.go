package cache

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/extproc/chat"
)

// encodedVersion must be incremented whenever the encoding of a record or of its metadata changes.
const encodedVersion = 2

// Version identifies the encoding of entries and of their keys. Entries of another version cannot be used.
const Version = encodedVersion<<16 | keyVersion

// encoded is an entry on disk.
type encoded struct {
	Served           Served
	Key              Key
	Format           Format
	Created, Expires time.Time
	Market           Market
	Record           []byte
}

// Encode writes an entry for Decode.
func (e *Entry) Encode() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&encoded{e.Served, e.Key, e.Format, e.Created, e.Expires, e.Market, e.record})
	return b.Bytes(), err
}

// errRecord is the error of an entry whose record cannot be decoded.
var errRecord = errors.New("the record of a stored answer is broken")

// Decode reads an entry that Encode wrote, and checks all of it.
func Decode(b []byte) (*Entry, error) {
	var d encoded
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&d); err != nil {
		return nil, fmt.Errorf("reading a stored answer: %w", err)
	}
	e := &Entry{Served: d.Served, Key: d.Key, Format: d.Format, Created: d.Created, Expires: d.Expires, Market: d.Market, record: bytes.Clone(d.Record)}
	r, ev := reader{b: e.record}, chat.Event{}
	for r.next(&ev) {
	}
	if r.bad || len(e.record) == 0 {
		return nil, errRecord
	}
	return e, nil
}
