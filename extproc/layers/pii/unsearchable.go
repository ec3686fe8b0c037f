package pii

import (
	"cmp"

	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
)

// unsearchable are the parts of a request that cannot be searched.
type unsearchable struct {
	tokens string // the member that has tokens or vectors instead of text; "" for none
	media  int    // number of pictures, sound and files
}

// unsearchableOf are those of a request.
func unsearchableOf(x *pipeline.Exchange) unsearchable {
	t, err := x.Transcript()
	if err != nil {
		return unsearchable{} // search has returned the error
	}
	return unsearchable{t.Tokens, t.Media + x.Files}
}

func (u unsearchable) parts() int {
	if u.tokens != "" {
		return u.media + 1
	}
	return u.media
}

// refuseUnsearchable refuses a request with parts that the operator does not allow to be sent unsearched.
func (l Layer) refuseUnsearchable(u unsearchable) error {
	refused := cmp.Or(l.RefuseParts, Tokens)
	switch {
	case refused != None && u.tokens != "":
		f := fault.Newf(fault.InvalidRequest, "%s has tokens or vectors instead of text, in which this gateway cannot look for personal data: "+
			"send the text, as a string (pipeline.pii.refuse_unread)", u.tokens)
		f.Param = u.tokens
		return f
	case refused == All && u.media > 0:
		return fault.Newf(fault.InvalidRequest, "the request has pictures, sound or files, in which this gateway cannot look for personal data: remove them (pipeline.pii.refuse_unread)")
	}
	return nil
}
