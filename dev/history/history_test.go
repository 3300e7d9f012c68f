package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each journal is a small story; `found` is part of what has to be said of it, empty: nothing.
var stories = []struct {
	name, found string
	journal     []string
}{
	{"one after the other", "", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 b read k 1 ok db-0 1",
		"50 60 b write k 2 ok db-0 1",
		"70 80 a read k 2 ok db-0 1",
	}},
	{"nothing was written yet", "", []string{
		"10 20 a read k nil ok db-0 1",
		"10 20 a list k nil ok db-0 1",
		"30 40 b write k 1 ok db-0 1",
	}},
	{"at the same time any order will do", "", []string{
		"10 50 a write k 1 ok db-0 1",
		"10 50 b write k 2 ok db-0 1",
		"60 70 c read k 1 ok db-0 1",
	}},
	{"keys have nothing to do with each other, nor lists with registers", "", []string{
		"10 20 a write k 1 ok db-0 1",
		"10 20 a append k 2 ok db-0 1",
		"30 40 b read l nil ok db-0 1",
		"50 60 b list k 2 ok db-0 1",
	}},
	{"a stale read", "register k is not linearizable", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 a write k 2 ok db-1 2",
		"50 60 b read k 1 ok db-0 1",
	}},
	{"a lost write", "register k is not linearizable", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 b read k nil ok db-1 2",
	}},
	{"a lost write of which a later one hides nothing", "list k is not linearizable", []string{
		"10 20 a append k 1 ok db-0 1",
		"30 40 a append k 2 ok db-1 2",
		"50 60 b list k 2 ok db-1 2",
	}},
	{"two primaries, each true to itself", "register k is not linearizable", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 b write k 2 ok db-1 2",
		"50 60 a read k 1 ok db-0 1",
		"50 60 b read k 2 ok db-1 2",
	}},
	{"two primaries with a list each", "list k is not linearizable", []string{
		"10 20 a append k 1 ok db-0 1",
		"10 20 b append k 2 ok db-1 2",
		"30 40 a list k 1 ok db-0 1",
		"30 40 b list k 2 ok db-1 2",
	}},
	{"an order that changes", "list k is not linearizable", []string{
		"10 90 a append k 1 ok db-0 1",
		"10 90 b append k 2 ok db-0 1",
		"20 30 c list k 1,2 ok db-0 1",
		"40 50 c list k 2,1 ok db-0 1",
	}},
	{"who fails has no effect", "", []string{
		"10 20 a write k 1 fail - -",
		"30 40 b read k nil ok db-0 1",
		"50 60 a append k 1 fail - -",
		"70 80 b list k nil ok db-0 1",
	}},
	{"what failed is read", "register k is not linearizable", []string{
		"10 20 a write k 1 fail - -",
		"30 40 b read k 1 ok db-0 1",
	}},
	{"what nobody wrote is read", "list k is not linearizable", []string{
		"10 20 a append k 1 ok db-0 1",
		"30 40 b list k 1,7 ok db-0 1",
	}},
	{"an unknown write never came", "", []string{
		"10 20 a write k 1 unknown - -",
		"30 40 b read k nil ok db-0 1",
	}},
	{"an unknown write came long after its client gave up", "", []string{
		"10 20 a write k 1 unknown - -",
		"30 40 b read k nil ok db-0 1",
		"50 60 b read k 1 ok db-0 1",
	}},
	{"an unknown write came after a later one", "", []string{
		"10 20 a write k 1 unknown - -",
		"30 40 a write k 2 ok db-0 1",
		"50 60 b read k 2 ok db-0 1",
		"70 80 b read k 1 ok db-0 1",
	}},
	{"an unknown append comes once", "list k is not linearizable", []string{
		"10 20 a append k 1 unknown - -",
		"30 40 b list k 1,1 ok db-0 1",
	}},
	{"an unknown write was read and is gone", "register k is not linearizable", []string{
		"10 20 a write k 1 unknown - -",
		"30 40 b read k 1 ok db-0 1",
		"50 60 b read k nil ok db-1 2",
	}},
	{"an unknown write is read before it begins", "register k is not linearizable", []string{
		"10 20 b read k 1 ok db-0 1",
		"30 40 a write k 1 unknown - -",
	}},
	{"a read without an answer says nothing", "", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 b read k - unknown - -",
		"50 60 b list k - fail - -",
	}},
	{"a client died before it heard of its write, which came", "", []string{
		"10 10 a write k 1 begun - -",
		"30 40 b read k 1 ok db-0 1",
	}},
	{"a client died before it heard of its write, which did not come", "", []string{
		"10 10 a append k 1 begun - -",
		"30 40 b list k nil ok db-0 1",
	}},
	{"two lines are one write", "list k is not linearizable", []string{
		"10 10 a append k 1 begun - -",
		"10 20 a append k 1 ok db-0 1",
		"30 40 b list k 1,1 ok db-0 1",
	}},
	{"a write that was begun and acknowledged is lost", "register k is not linearizable", []string{
		"10 10 a write k 1 begun - -",
		"10 20 a write k 1 ok db-0 1",
		"30 40 b read k nil ok db-1 2",
	}},
	{"two writes of one value cannot be told apart", "the value 1 was written twice", []string{
		"10 20 a write k 1 ok db-0 1",
		"30 40 a write k 1 ok db-0 1",
	}},
	{"other lines and a half of the last one are left out", "", []string{
		"10 20 look-node1 look - writable ok db-0 1",
		"10 20 rw insert rw 7 ok db-0 1",
		"10 20 a write k 1 ok db-0 1",
		"30 40 b re",
	}},
}

func TestStories(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			journal := strings.Join(story.journal, "\n")
			if !strings.HasPrefix(story.name, "other lines") {
				journal += "\n"
			}
			operations, err := read(strings.NewReader(journal))
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(check(operations, time.Minute), "\n")
			if (story.found == "") != (said == "") || !strings.Contains(said, story.found) {
				t.Errorf("said %q, expected %q", said, story.found)
			}
		})
	}
}

// The sentence names the operation that does not fit.
func TestTheStaleReadIsNamed(t *testing.T) {
	operations, err := read(strings.NewReader("10 20 a write k 1 ok db-0 1\n30 40 a write k 2 ok db-1 2\n50 60 b read k 1 ok db-0 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	said := check(operations, time.Minute)
	if len(said) != 1 || !strings.HasSuffix(said[0], "the first that fits nowhere is b's read of 1, answered by db-0 at 60") {
		t.Errorf("said %q", said)
	}
}

// As many of them as a partition leaves behind, of clients that all write at the same time, are decided at once.
func TestManyUnknownOutcomes(t *testing.T) {
	var journal strings.Builder
	at, value := 0, 0
	for round := range 20 {
		for client := range 8 {
			value++
			fmt.Fprintf(&journal, "%d %d c%d write k %d unknown - -\n", at, at+10, client, value)
		}
		fmt.Fprintf(&journal, "%d %d r read k %d ok db-0 1\n", at+20, at+30, 8*round+3)
		at += 15
	}
	operations, err := read(strings.NewReader(journal.String()))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if said := check(operations, time.Minute); len(said) > 0 {
		t.Errorf("said %q", said)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// No answer in time is no good news.
func TestUndecidedIsSaid(t *testing.T) {
	var journal strings.Builder
	for client := range 40 {
		fmt.Fprintf(&journal, "0 1000 c%d append k %d ok db-0 1\n", client, client)
	}
	journal.WriteString("2000 2010 r list k nil ok db-0 1\n")
	operations, err := read(strings.NewReader(journal.String()))
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(check(operations, 100*time.Millisecond), "\n")
	if !strings.Contains(said, "no order of its 41 operations was found within 100ms") {
		t.Errorf("said %q", said)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	for _, line := range []string{"10 20 a write k 1 ok db-0", "20 10 a write k 1 ok db-0 1", "x 20 a write k 1 ok db-0 1", "10 20 a write k 1 perhaps - -"} {
		if _, err := read(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}
