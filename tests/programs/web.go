// An HTTP server and its clients in one program, over loopback of both families, and the program run again as a child.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"time"
)

func serve(address string) (string, *http.Server) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println("listen:", err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		// A server may answer only what it has read.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fmt.Println("request:", err)
		}
		w.Write(body)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	return listener.Addr().String(), server
}

func main() {
	if len(os.Args) > 1 {
		response, err := http.Post("http://"+os.Args[1]+"/echo", "text/plain", os.Stdin)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		io.Copy(os.Stdout, response.Body)
		return
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		where, server := serve(address)
		var group sync.WaitGroup
		var lock sync.Mutex
		var answers []string
		for client := 0; client < 16; client++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for turn := 0; turn < 20; turn++ {
					text := strings.Repeat(fmt.Sprint(client, " "), 1000*turn)
					response, err := http.Post("http://"+where+"/echo", "text/plain", strings.NewReader(text))
					if err != nil {
						fmt.Println("post:", err)
						return
					}
					body, err := io.ReadAll(response.Body)
					response.Body.Close()
					if err != nil || string(body) != text {
						fmt.Println("answer:", len(body), err)
					}
				}
				lock.Lock()
				answers = append(answers, fmt.Sprint(client))
				lock.Unlock()
			}()
		}
		group.Wait()
		sort.Strings(answers)
		fmt.Println(answers)

		impatient := http.Client{Timeout: 50 * time.Millisecond}
		_, err := impatient.Get("http://" + where + "/slow")
		fmt.Println("in time:", err == nil)

		child := exec.Command("/proc/self/exe", where)
		child.Stdin = bytes.NewReader([]byte("a child asks"))
		output, err := child.Output()
		fmt.Println(string(output), err)
		server.Close()
		_, err = http.Get("http://" + where + "/echo")
		fmt.Println("after the end:", err != nil)
	}
	fmt.Println(exec.Command("sh", "-c", "exit 3").Run())
}
