package usage

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy/ledger/store"
)

// sealedReason is the prefix of an encrypted reason. Earlier versions stored reasons in clear, without it.
const sealedReason = "enc:"

// reasonRow is the associated data that binds an encrypted reason to its row.
func reasonRow(request string) string { return "reason " + request }

// SealReason is a reason's stored form: encrypted, in base64, after sealedReason.
func SealReason(texts seal.Sealer, request, reason string) string {
	if reason == "" {
		return ""
	}
	return sealedReason + base64.RawStdEncoding.EncodeToString(texts.Seal(reasonRow(request), []byte(reason)))
}

// OpenReason decrypts a stored reason; "" if it was encrypted with another key.
func OpenReason(texts seal.Sealer, request, stored string) string {
	sealed, ok := strings.CutPrefix(stored, sealedReason)
	if !ok {
		return stored
	}
	b, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return ""
	}
	reason, err := texts.Open(reasonRow(request), b)
	if err != nil {
		return ""
	}
	return string(reason)
}

// SealReasons encrypts up to PruneLimit reasons that an earlier version stored in clear, and returns how many.
func SealReasons(b *store.Book, texts seal.Sealer) (int64, error) {
	found, err := store.ReadAll(context.Background(), b, func(s store.Scanner) (f Feedback, err error) {
		err = s.Scan(&f.RequestID, &f.Reason)
		return f, err
	}, `SELECT request, reason FROM feedback WHERE reason <> '' AND substr(reason, 1, 4) <> ? LIMIT ?`, sealedReason, PruneLimit)
	if err != nil {
		return 0, fmt.Errorf("feedback: %w", err)
	}
	for i := range found {
		if _, err := b.Exec(`UPDATE feedback SET reason = ? WHERE request = ?`, SealReason(texts, found[i].RequestID, found[i].Reason), found[i].RequestID); err != nil {
			return 0, err
		}
	}
	return int64(len(found)), nil
}
