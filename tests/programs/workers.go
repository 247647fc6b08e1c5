// Goroutines over channels, garbage collection, timers, signals, files and a child process.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	work := make(chan int)
	results := make(chan int)
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := range work {
				results <- number * number
			}
		}()
	}
	go func() {
		for number := 0; number < 10000; number++ {
			work <- number
		}
		close(work)
		group.Wait()
		close(results)
	}()
	sum := 0
	for result := range results {
		sum += result
	}
	fmt.Println("sum of squares", sum)

	words := map[string]int{}
	for i := 0; i < 200000; i++ {
		words[fmt.Sprint("word", i%1000)] += i
	}
	runtime.GC()
	keys := make([]string, 0, len(words))
	for key := range words {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	fmt.Println(len(keys), keys[0], words[keys[0]])

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println("signal", <-signals)

	select {
	case <-time.After(20 * time.Millisecond):
		fmt.Println("timer")
	case <-signals:
		fmt.Println("no timer")
	}

	defer func() { fmt.Println("recovered:", recover()) }()
	os.WriteFile("file", []byte(strings.Repeat("x", 100000)), 0o644)
	info, _ := os.Stat("file")
	output, err := exec.Command("wc", "-c", "file").Output()
	fmt.Print(info.Size(), " ", string(output), err, "\n")
	var nothing *int
	fmt.Println(*nothing)
}
