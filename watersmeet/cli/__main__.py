from watersmeet.cli import main

main()
