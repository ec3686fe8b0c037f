package modality

import (
	"bytes"
	"encoding/binary"
)

// The duration of audio, as far as the first and last bytes of a file determine it.

// minRate is the lowest bit rate of speech, in bytes per second. It bounds the duration of a file of unknown format.
const minRate = 750

// duration returns the playing time of an uploaded file, in milliseconds; exact is false if it is only an upper bound.
func duration(file []byte) (ms int64, exact bool) {
	for _, of := range [...]func([]byte) (int64, bool){wav, flac, ogg} {
		if ms, ok := of(file); ok {
			return ms, true
		}
	}
	return int64(len(file)) * 1000 / minRate, false
}

// wav reads the byte rate of a RIFF file. The length in its header is only used if it fits the file.
func wav(file []byte) (ms int64, ok bool) {
	if len(file) < 44 || string(file[:4]) != "RIFF" || string(file[8:16]) != "WAVEfmt " {
		return 0, false
	}
	rate := int64(binary.LittleEndian.Uint32(file[28:]))
	if rate == 0 {
		return 0, false
	}
	data := int64(len(file) - 44)
	if i := bytes.Index(file[:min(len(file), 4096)], []byte("data")); i > 0 && i+8 <= len(file) {
		data = int64(len(file) - i - 8)
		if declared := int64(binary.LittleEndian.Uint32(file[i+4:])); declared < data {
			data = declared
		}
	}
	return data * 1000 / rate, true
}

// flac reads the number of samples in the first block of a file.
func flac(file []byte) (ms int64, ok bool) {
	if len(file) < 26 || string(file[:4]) != "fLaC" {
		return 0, false
	}
	packed := binary.BigEndian.Uint64(file[18:]) // 20 bits of rate, 3 of channels, 5 of depth, 36 of samples
	rate, samples := packed>>44, packed&(1<<36-1)
	if rate == 0 || samples == 0 {
		return 0, false
	}
	return int64(samples * 1000 / rate), true //nolint:gosec // 36 bits
}

// ogg reads the end position of a file's last page. Opus counts in samples of 48 kHz; Vorbis states its rate in the first page.
func ogg(file []byte) (ms int64, ok bool) {
	last := bytes.LastIndex(file, []byte("OggS"))
	if len(file) < 64 || string(file[:4]) != "OggS" || last+14 > len(file) {
		return 0, false
	}
	rate := uint64(48_000)
	if i := bytes.Index(file[:64], []byte("\x01vorbis")); i > 0 && i+16 <= len(file) {
		rate = uint64(binary.LittleEndian.Uint32(file[i+12:]))
	}
	at := binary.LittleEndian.Uint64(file[last+6:])
	if rate == 0 || at > 1<<40 {
		return 0, false
	}
	return int64(at * 1000 / rate), true //nolint:gosec // bounded
}

// pcmRate is the byte rate of spoken answers in PCM: 24,000 samples of 16 bits per second.
const pcmRate = 48_000

// Kilobits per second of MPEG layer III, by the index in a frame's header: for version 1, and for versions 2 and 2.5.
var (
	mpeg1 = [16]int64{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	mpeg2 = [16]int64{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
)

// answerRate returns the bytes per second of a spoken answer, by its content type and first bytes; 0 if unknown.
func answerRate(contentType string, begin []byte) int64 {
	switch {
	case len(begin) >= 44 && string(begin[:4]) == "RIFF":
		return int64(binary.LittleEndian.Uint32(begin[28:]))
	case contentType == "audio/pcm":
		return pcmRate
	}
	if len(begin) > 10 && string(begin[:3]) == "ID3" { // a tag, whose length has seven bits a byte
		n := 10 + int(begin[6])<<21 + int(begin[7])<<14 + int(begin[8])<<7 + int(begin[9])
		begin = begin[min(n, len(begin)):]
	}
	if len(begin) < 4 || begin[0] != 0xff || begin[1]&0xe6 != 0xe2 {
		return 0
	}
	kilobits := mpeg2[begin[2]>>4]
	if begin[1]&0x18 == 0x18 {
		kilobits = mpeg1[begin[2]>>4]
	}
	return kilobits * 1000 / 8
}
