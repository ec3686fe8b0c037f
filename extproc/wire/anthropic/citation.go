package anthropic

import (
	"bytes"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// keyCitations is the member of a text block that holds its citations.
const keyCitations = "citations"

// dropCitations removes citations from a history that the gateway converted from another provider's: the API refuses them. It reports
// whether there were any.
func dropCitations(e *jsonx.Edits, d *jsonx.Doc) (found bool) {
	for _, m := range d.Get("messages").Each {
		for _, block := range m.Get("content").Each {
			for _, c := range block.Get(keyCitations).Each {
				if c.Get("encrypted_index").Equal("") {
					wire.CutMember(e, d, block, keyCitations)
					found = true
					break
				}
			}
		}
	}
	return found
}

// mayCite is a quick check: false means that a history has no citation that the gateway wrote.
func mayCite(d *jsonx.Doc) bool { return bytes.Contains(d.Bytes, []byte(`"encrypted_index"`)) }
