//go:build !linux

package timerslack

func usual() {}

func late() {}
