package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// lose HOME REQUEST… creates a gateway's state in which the payments for the requests failed: of wallet 0x01…, 0.005 USD each.
func lose(ts *testscript.TestScript, _ bool, args []string) {
	home := ts.MkAbs(args[0])
	ctx := context.Background()
	books, err := ledger.Open(ctx, filepath.Join(home, "bardo.db"), ledger.Options{Gateway: true})
	ts.Check(err)
	b, err := book.Open(ctx, book.InFile(filepath.Join(home, "payments.db")), time.Now)
	ts.Check(err)
	_, err = b.Claim(ctx)
	for _, request := range args[1:] {
		if err == nil {
			err = loseOne(ctx, books, b, request)
		}
	}
	ts.Check(errors.Join(err, b.Close(), books.Close()))
}

func loseOne(ctx context.Context, books *ledger.Ledger, b *book.Book, request string) error {
	const amount = 5000
	p := &pay.Payment{
		Authorization: pay.Authorization{From: pay.Address{1}, Value: amount, ValidBefore: 1 << 39, Nonce: pay.Word([]byte(fmt.Sprintf("%-32s", request)))}, Signature: make([]byte, 65),
	}
	row, err := b.Reserve(ctx, &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}}, p, request, 1, book.Limits{Failed: true})
	if err != nil {
		return err
	}
	if err := b.MarkServed(ctx, row.ID, amount, amount); err != nil {
		return err
	}
	c := ledger.Charge{RequestID: request, Account: pay.Account(p.From), Amount: amount}
	h, err := books.CreditServed(ctx, c.Account, amount, 0, row.Reference(), &c, nil)
	if err != nil {
		return err
	}
	if _, err := books.Capture(ctx, h, c); err != nil {
		return err
	}
	if _, err := books.TakeBack(ctx, c.Account, amount, row.Reference()); err != nil {
		return err
	}
	return errors.Join(b.MarkBooked(ctx, row.ID), b.MarkFailed(ctx, row.ID, "the payer cancelled the authorization"), b.MarkLost(ctx, row.ID))
}
