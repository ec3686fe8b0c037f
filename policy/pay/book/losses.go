package book

import (
	"context"
	"time"

	"bardo.money/gateway/policy"
)

// Loss is the cost of a request whose payment did not arrive.
type Loss struct {
	Cost policy.Micro
	At   time.Time // when it was detected
}

// Losses returns the losses of requests whose payments failed since a time, or cannot be sent at present, the earliest first.
func (b *Book) Losses(ctx context.Context, since time.Time) (list []Loss, err error) {
	err = retryLost(ctx, func() error {
		list = nil
		rows, err := b.rows(ctx, `SELECT charge, changed FROM payment WHERE service = 'served' AND charge > 0
	AND (settlement = 'failed' AND changed >= ? OR settlement IN ('none', 'settling') AND attempts > 0) ORDER BY changed`, since.UnixMicro())
		if err != nil {
			return err
		}
		return eachRow(rows, func(row scanner) error {
			var cost, at int64
			err := row.Scan(&cost, &at)
			list = append(list, Loss{policy.Micro(cost), time.UnixMicro(at)})
			return err
		})
	})
	return list, err
}
