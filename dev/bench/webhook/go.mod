module tanist.dev/bench/webhook

go 1.24
