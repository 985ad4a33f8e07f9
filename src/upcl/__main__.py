from upcl.cli import main

main()
