package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A kind of operation on a key. Other lines of the journal are not for this program.
type kind string

const (
	writeRegister kind = "write" // replaces the value
	readRegister  kind = "read"
	appendToList  kind = "append" // adds a value at the end
	readList      kind = "list"
)

// What a client knows of an operation when it ends.
type outcome string

const (
	ok      outcome = "ok"
	fail    outcome = "fail"    // it has no effect and never will
	unknown outcome = "unknown" // it may have had its effect, or have it at any later time, or never
	begun   outcome = "begun"   // a write is about to be sent; without a second line its client died, and the outcome is unknown
)

// An operation is one line of the journal. Moments are microseconds of the one clock of the machine.
type operation struct {
	begin, end int64
	client     string
	kind       kind
	key        string
	// What is written or was read; a read list has commas between its values. Empty: there was nothing.
	value   string
	outcome outcome
	member  string
}

// Nothing was there to be read.
const nothing = "nil"

// read parses BEGIN END CLIENT OPERATION KEY VALUE OUTCOME MEMBER TIMELINE, one operation per line. Lines of other operations are left out.
// A last line without an end is one that a client was about to write: it is left out, too.
func read(from io.Reader) ([]operation, error) {
	var all []operation
	lines := bufio.NewReaderSize(from, 1<<16)
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return settle(all), nil
		}
		if err != nil {
			return nil, err
		}
		one, ours, err := parse(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if ours {
			all = append(all, one)
		}
	}
}

func parse(field []string) (one operation, ours bool, err error) {
	if len(field) != 9 {
		return one, false, fmt.Errorf("%d fields, not 9", len(field))
	}
	one.kind = kind(field[3])
	switch one.kind {
	case writeRegister, readRegister, appendToList, readList:
	default:
		return one, false, nil
	}
	if one.begin, err = strconv.ParseInt(field[0], 10, 64); err != nil {
		return one, false, err
	}
	if one.end, err = strconv.ParseInt(field[1], 10, 64); err != nil {
		return one, false, err
	}
	if one.end < one.begin {
		return one, false, fmt.Errorf("it ends %d µs before it begins", one.begin-one.end)
	}
	one.client, one.key, one.value, one.member = field[2], field[4], field[5], field[7]
	if one.value == nothing {
		one.value = ""
	}
	one.outcome = outcome(field[6])
	switch one.outcome {
	case ok, fail, unknown, begun:
		return one, true, nil
	}
	return one, false, fmt.Errorf("no such outcome: %s", field[6])
}

// settle makes one operation of the two lines of a write.
func settle(all []operation) []operation {
	type write struct {
		kind       kind
		key, value string
	}
	ended := map[write]bool{}
	for _, one := range all {
		if one.outcome != begun {
			ended[write{one.kind, one.key, one.value}] = true
		}
	}
	var settled []operation
	for _, one := range all {
		if one.outcome == begun {
			if ended[write{one.kind, one.key, one.value}] {
				continue
			}
			one.outcome = unknown
		}
		settled = append(settled, one)
	}
	return settled
}
