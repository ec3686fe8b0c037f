package structured

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds on what is kept of callers' schemas. A compiled one takes some tens of times its size.
const (
	mostForms     = 512
	mostFormBytes = 2 << 20 // of schemas
)

// cache keeps the forms of recent schemas.
type cache struct {
	mu    sync.Mutex
	forms *simplelru.LRU[[sha256.Size]byte, *Form]
	bytes int
}

var recent cache

// form is the form of a schema, compiled anew if it is not there. Two callers may compile the same one at once.
func (c *cache) form(name string, schema []byte) (*Form, error) {
	key := sha256.Sum256(append([]byte(name+"\x00"), schema...))
	if f := c.find(key); f != nil {
		return f, nil
	}
	f, err := compile(name, append([]byte(nil), schema...))
	if err != nil {
		return nil, err
	}
	c.keep(key, f)
	return f, nil
}

func (c *cache) find(key [sha256.Size]byte) *Form {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forms == nil {
		return nil
	}
	f, _ := c.forms.Get(key)
	return f
}

func (c *cache) keep(key [sha256.Size]byte, f *Form) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forms == nil {
		var err error
		c.forms, err = simplelru.NewLRU(mostForms, func(_ [sha256.Size]byte, f *Form) { c.bytes -= len(f.schema.Raw) })
		if err != nil {
			return
		}
	}
	if c.forms.Contains(key) {
		return
	}
	c.bytes += len(f.schema.Raw)
	c.forms.Add(key, f)
	for c.bytes > mostFormBytes {
		c.forms.RemoveOldest()
	}
}
