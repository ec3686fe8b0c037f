package extproc

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/stored"
)

// keepMade records the owner of what a provider stored with its answer: the response, its items, and what the answer gave access to, such as a
// container. It is recorded before the client has the whole answer.
func (x *exchange) keepMade(ctx context.Context, a *answer) error {
	if x.OwnKey.IsSet() {
		return nil
	}
	ids := a.storedIDs
	if x.StoredAt(&a.res) && a.id != "" {
		ids = append(ids, a.id)
	}
	if len(ids) == 0 {
		return nil
	}
	return x.gw.Ledger.Keep(ctx, passthrough.Owned(x.Principal.Account, a.res.Provider, ids)...)
}

// names notes the ids of stored resources in members that only the answer's own format has.
func (a *answer) names(ev *chat.Event) {
	if len(ev.Text) == 0 || a.dialect != a.x.Request.Dialect {
		return
	}
	switch ev.Text[0] {
	case '"':
		if ev.ID == itemID {
			a.storedIDs = stored.AppendID(a.storedIDs, ev.Text)
		}
	case '{':
		own := a.dialect == chat.Responses || ev.ID == "container" || ev.ID == "audio"
		a.storedIDs = append(a.storedIDs, stored.IDs(ev.Text, own)...)
	}
}

// itemID is the extra that names an item of a response.
const itemID = "item_id"
