// Command history says whether the histories of dev/chaos's clients are linearizable: one register or one append list per key. The search for
// an order is porcupine's; here are only the reader of the journal and the two models.
//
// It reads a journal (dev/chaos/src/journal.rs) on its standard input and prints a line for each key whose history fits no order, or for which no answer was
// found in time. It ends with 0 when the journal could be read, whatever was found, and with 2 when it could not.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	limit := flag.Duration("limit", 30*time.Second, "time for each key")
	flag.Parse()
	operations, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	for _, finding := range check(operations, *limit) {
		fmt.Fprintln(out, finding)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(2)
	}
}
