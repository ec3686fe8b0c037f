package structured

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limits of the cache of clients' schemas. A compiled schema takes some tens of times its size.
const (
	maxSchemas     = 512
	maxCachedBytes = 2 << 20 // of uncompiled schemas
)

// schemaCache holds recently used schemas, compiled.
type schemaCache struct {
	mu      sync.Mutex
	schemas *simplelru.LRU[[sha256.Size]byte, *Schema]
	bytes   int
}

var recent schemaCache

// get returns a compiled schema from the cache or compiles it. Two callers may compile the same one concurrently.
func (c *schemaCache) get(name string, schema []byte) (*Schema, error) {
	key := sha256.Sum256(append([]byte(name+"\x00"), schema...))
	if f := c.find(key); f != nil {
		return f, nil
	}
	f, err := compile(name, append([]byte(nil), schema...))
	if err != nil {
		return nil, err
	}
	c.add(key, f)
	return f, nil
}

func (c *schemaCache) find(key [sha256.Size]byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil {
		return nil
	}
	f, _ := c.schemas.Get(key)
	return f
}

func (c *schemaCache) add(key [sha256.Size]byte, f *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil {
		var err error
		c.schemas, err = simplelru.NewLRU(maxSchemas, func(_ [sha256.Size]byte, f *Schema) { c.bytes -= len(f.schema.Raw) })
		if err != nil {
			return
		}
	}
	if c.schemas.Contains(key) {
		return
	}
	c.bytes += len(f.schema.Raw)
	c.schemas.Add(key, f)
	for c.bytes > maxCachedBytes {
		c.schemas.RemoveOldest()
	}
}
