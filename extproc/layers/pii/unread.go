package pii

import (
	"cmp"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
)

// unread are the parts of a request that cannot be looked into.
type unread struct {
	tokens string // the member that has tokens or vectors in the place of text; "" for none
	media  int    // pictures, sound and files
}

// unreadOf are those of a request whose texts were searched.
func unreadOf(x *pipeline.Exchange) unread {
	t, err := x.Transcript()
	if err != nil {
		return unread{} // search has said so
	}
	return unread{t.Tokens, t.Media + x.Files}
}

func (u unread) parts() int {
	if u.tokens != "" {
		return u.media + 1
	}
	return u.media
}

// refuseUnread refuses what the operator does not want to be sent without a look.
func (l Layer) refuseUnread(u unread) error {
	refused := cmp.Or(l.Unread, Tokens)
	switch {
	case refused != None && u.tokens != "":
		f := fault.Newf(fault.InvalidRequest, "%s has tokens or vectors in the place of text, in which this gateway cannot look for personal data: "+
			"send the text, as a string (pipeline.pii.refuse_unread)", u.tokens)
		f.Param = u.tokens
		return f
	case refused == All && u.media > 0:
		return fault.Newf(fault.InvalidRequest, "the request has pictures, sound or files, in which this gateway cannot look for personal data: remove them (pipeline.pii.refuse_unread)")
	}
	return nil
}
