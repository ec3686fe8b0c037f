package usage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// Feedback is a caller's rating of an answer.
type Feedback struct {
	RequestID string
	Account   policy.Account // of the request; "" for an anonymous one
	At        time.Time
	Score     int64  // in millionths, 0 to PerfectScore
	Reason    string // "" for none; stored encrypted, see SealReason
	Task      string // of the request's record
	Regime    string // of the request's record
}

// ErrNotOwner says that another account owns the request's feedback.
var ErrNotOwner = errors.New("another account owns this request")

// PerfectScore is the highest score.
const PerfectScore = 1_000_000

const selectFeedback = `SELECT request, account, at, score, reason, task, regime FROM feedback WHERE request = ?`

// Rate stores a caller's feedback on an answer, and returns the feedback that it replaces; ok is false if there was none. It may run again after a
// rollback. The error is ErrNotOwner for another account's request.
func Rate(b *store.Book, f *Feedback) (before Feedback, ok bool, err error) {
	before, err = scanFeedback(b.Row(selectFeedback, f.RequestID))
	if ok = err == nil; !ok && !errors.Is(err, sql.ErrNoRows) {
		return before, false, err
	}
	if ok && before.Account != f.Account {
		return before, false, ErrNotOwner
	}
	_, err = b.Exec(`INSERT INTO feedback (request, account, at, score, reason, task, regime) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (request) DO UPDATE SET at = excluded.at, score = excluded.score, reason = excluded.reason`,
		f.RequestID, string(f.Account), f.At.UnixMicro(), f.Score, f.Reason, f.Task, f.Regime)
	return before, ok, err
}

// FeedbackOn reads the feedback on an answer; ok is false if there is none.
func FeedbackOn(ctx context.Context, reads *store.Readers, request string) (f Feedback, ok bool, err error) {
	f, err = scanFeedback(reads.QueryRowContext(ctx, selectFeedback, request))
	if errors.Is(err, sql.ErrNoRows) {
		return Feedback{}, false, nil
	}
	if err != nil {
		return Feedback{}, false, fmt.Errorf("feedback on request %s: %w", request, err)
	}
	return f, true, nil
}

// FeedbackRow is the mean feedback on requests of one task in one regime.
type FeedbackRow struct {
	Task    string  `json:"task"`
	Regime  string  `json:"regime"`
	Answers int64   `json:"answers"`
	Score   float64 `json:"mean_score"` // 0 to 1
}

// FeedbackByTask sums feedback by task and regime, of one account or, if it is "", of all.
func FeedbackByTask(ctx context.Context, reads *store.Readers, account policy.Account) ([]FeedbackRow, error) {
	rows, err := store.ReadAll(ctx, reads, func(s store.Scanner) (r FeedbackRow, err error) {
		err = s.Scan(&r.Task, &r.Regime, &r.Answers, &r.Score)
		return r, err
	}, `SELECT task, regime, count(*), avg(score) / 1000000.0 FROM feedback WHERE (?1 = '' OR account = ?1) GROUP BY task, regime ORDER BY task, regime`, account)
	if err != nil {
		return nil, fmt.Errorf("feedback: %w", err)
	}
	return rows, nil
}

func scanFeedback(row store.Scanner) (f Feedback, err error) {
	var at int64
	if err := row.Scan(&f.RequestID, &f.Account, &at, &f.Score, &f.Reason, &f.Task, &f.Regime); err != nil {
		return Feedback{}, err
	}
	f.At = time.UnixMicro(at)
	return f, nil
}

// PruneFeedback removes up to PruneLimit rows from before a time, in microseconds since 1970, and returns how many.
func PruneFeedback(b *store.Book, before int64) (int64, error) {
	return b.Exec(`DELETE FROM feedback WHERE request IN (SELECT request FROM feedback WHERE at < ? LIMIT ?)`, before, PruneLimit)
}
